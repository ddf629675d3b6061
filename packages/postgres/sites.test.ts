import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-fields'
import { SluiceError } from '@sluice/contracts/errors'
import { sql } from 'kysely'
import { openPostgres } from './open.ts'
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

describe('a key registers 1,000 sites in 24 hours', () => {
  const max = eventLimits.newSitesPerDayMax
  const none = { refused: [], retryAfterSeconds: 0 }
  const day = 86_400
  const named = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

  async function registeredBy(keyId: string): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      SELECT count(*)::int AS count FROM sites WHERE registered_by = ${keyId}`.execute(postgres.db)
    return rows[0]?.count ?? -1
  }

  /** As if all that the key registered had been that much earlier. */
  async function age(keyId: string, seconds: number): Promise<void> {
    await sql`
      UPDATE sites SET created_at = created_at - make_interval(secs => ${seconds}) WHERE registered_by = ${keyId}`.execute(
      postgres.db,
    )
  }

  test('and no more: the others stay unknown', async () => {
    expect(await sites.registerFor('one', named('one', max))).toStrictEqual(none)
    const { refused, retryAfterSeconds } = await sites.registerFor('one', ['one-more'])
    expect(refused).toStrictEqual(['one-more'])
    expect(retryAfterSeconds).toBeGreaterThan(day - 60)
    expect(retryAfterSeconds).toBeLessThanOrEqual(day)
    expect(await sites.isKnown('one-more')).toBe(false)
    expect(await registeredBy('one')).toBe(max)
  })

  test('the first in the order in which they were named', async () => {
    await sites.registerFor('order', named('order', max - 2))
    expect((await sites.registerFor('order', ['z', 'order-0', 'm', 'z', 'a', 'b'])).refused).toStrictEqual(['a', 'b'])
    for (const [siteId, known] of Object.entries({ z: true, m: true, a: false, b: false })) {
      expect([siteId, await sites.isKnown(siteId)]).toStrictEqual([siteId, known])
    }
  })

  test('in one call too', async () => {
    const all = named('call', max + 500)
    expect((await sites.registerFor('call', all)).refused).toStrictEqual(all.slice(max))
    expect(await registeredBy('call')).toBe(max)
  })

  test('sites that are known, by whomever, cost nothing of it', async () => {
    await sites.registerFor('first', named('theirs', 500))
    await sites.register(named('nobody', 500))
    await sites.registerFor('second', named('second', max))
    const known = [...named('theirs', 500), ...named('nobody', 500), ...named('second', max)]
    expect(await sites.registerFor('second', known)).toStrictEqual(none)
    expect((await sites.registerFor('second', [...known, 'second-more'])).refused).toStrictEqual(['second-more'])
    // Nor does what one key may not register keep it from another.
    expect(await sites.registerFor('first', ['second-more'])).toStrictEqual(none)
  })

  test('24 hours later as many again, one by one', async () => {
    await sites.registerFor('days', named('early', 1))
    await age('days', day / 2)
    await sites.registerFor('days', named('late', max - 1))
    const full = await sites.registerFor('days', ['days-more'])
    expect(full.refused).toStrictEqual(['days-more'])
    expect(full.retryAfterSeconds).toBeGreaterThan(day / 2 - 60)
    expect(full.retryAfterSeconds).toBeLessThanOrEqual(day / 2)
    await age('days', day / 2)
    expect((await sites.registerFor('days', ['days-more', 'days-again'])).refused).toStrictEqual(['days-again'])
    await age('days', day)
    expect(await sites.registerFor('days', named('tomorrow', max))).toStrictEqual(none)
  })

  test('exactly, when processes race for the same and for different sites', async () => {
    const processes = Array.from({ length: 4 }, () => openPostgres(postgres.url))
    const stores = processes.map(siteStore)
    await sites.registerFor('racing', named('racing', max - 100))
    const register = async (store: SiteStore, siteIds: string[]): Promise<readonly string[]> => {
      for (;;) {
        try {
          return (await store.registerFor('racing', siteIds)).refused
        } catch (error) {
          // So many at once may wait too long for the lock.
          if (!(error instanceof SluiceError && error.retryable)) throw error
        }
      }
    }
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const own = named(`racing-${n}`, 3)
        return register(stores[n % 4] ?? sites, n % 2 === 0 ? [...own, 'racing-all'] : ['racing-all', ...own])
      }),
    )
    expect(await registeredBy('racing')).toBe(max)
    const refused = new Set(answers.flat())
    // 60 calls of 3 sites each and one that all name.
    expect(refused.size).toBe(181 - 100)
    for (const siteId of refused) expect(await sites.isKnown(siteId)).toBe(false)
    await Promise.all(processes.map((process) => process.close()))
  })

  test('exactly, when another key registers the same sites meanwhile', async () => {
    await Promise.all([
      sites.registerFor('rival-a', named('rival', 900)),
      sites.registerFor('rival-b', named('rival', 900).reverse()),
    ])
    expect((await registeredBy('rival-a')) + (await registeredBy('rival-b'))).toBe(900)
    for (const key of ['rival-a', 'rival-b']) {
      const room = max - (await registeredBy(key))
      expect((await sites.registerFor(key, named(`${key}-own`, room + 1))).refused).toHaveLength(1)
    }
  })

  test('a process that stands still with the lock holds nobody up for long', async () => {
    const stuck = openPostgres(postgres.url)
    const held = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const holding = stuck.db.transaction().execute(async (transaction) => {
      await sql`SELECT pg_advisory_xact_lock(5757006, hashtext('stuck'))`.execute(transaction)
      held.resolve(undefined)
      await gate.promise
    })
    await held.promise
    const started = performance.now()
    await expect(sites.registerFor('stuck', ['stuck-1'])).rejects.toMatchObject({ status: 503, retryable: true })
    expect(performance.now() - started).toBeLessThan(2_000)
    expect(await sites.registerFor('other', ['stuck-1'])).toStrictEqual(none)
    gate.resolve(undefined)
    await holding
    expect(await sites.registerFor('stuck', ['stuck-2'])).toStrictEqual(none)
    await stuck.close()
  })
})
