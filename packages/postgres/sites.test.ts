import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { siteStore, type SiteStore } from './sites.ts'
import { openTestPostgres, type TestPostgres } from './testing.ts'

let postgres: TestPostgres
let sites: SiteStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  sites = siteStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

async function count(): Promise<number> {
  const { total } = await postgres.db
    .selectFrom('sites')
    .select((select) => select.fn.countAll<string>().as('total'))
    .executeTakeFirstOrThrow()
  return Number(total)
}

test('a site is known once registered; repeats change nothing', async () => {
  expect(await sites.isKnown('shop')).toBe(false)
  await sites.register(['shop'])
  const first = await postgres.db.selectFrom('sites').selectAll().execute()
  await sites.register(['shop', 'shop', 'blog'])
  expect(await sites.isKnown('shop')).toBe(true)
  expect(await sites.isKnown('blog')).toBe(true)
  expect(await postgres.db.selectFrom('sites').selectAll().where('site_id', '=', 'shop').execute()).toStrictEqual(first)
})

test('none to register is fine', async () => {
  await sites.register([])
})

test.each(['Shop', ' shop', 'ſhop', '\u{1F600}', "'; DROP TABLE sites; --", '\u00fc', 'u\u0308', '\uFFFD'])(
  '%j is a site of its own',
  async (siteId) => {
    expect(await sites.isKnown(siteId)).toBe(false)
    await sites.register([siteId])
    expect(await sites.isKnown(siteId)).toBe(true)
  },
)

test('as many as a batch may name are registered at once', async () => {
  const before = await count()
  await sites.register(Array.from({ length: 2_000 }, (_, n) => `batch-${n}`))
  expect(await count()).toBe(before + 2_000)
})

test('racing registrations of the same sites in different orders never deadlock', async () => {
  const before = await count()
  for (let round = 0; round < 10; round++) {
    const ids = Array.from({ length: 300 }, (_, n) => `race-${round}-${n}`)
    const orders = [ids, ids.toReversed(), [...ids.slice(150), ...ids.slice(0, 150)]]
    await Promise.all(Array.from({ length: 9 }, (_, n) => sites.register(orders[n % 3] ?? ids)))
  }
  expect(await count()).toBe(before + 3_000)
})
