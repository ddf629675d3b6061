import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-fields'
import { SluiceError } from '@sluice/contracts/errors'
import { sql } from 'kysely'
import { openPostgres } from './open.ts'
import { registerNamed, siteStore, type SiteStore } from './sites.ts'
import { forgetChanges, openTestPostgres, type TestPostgres } from './testing.ts'

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
  expect(await sites.find('shop')).toBeUndefined()
  await sites.register(['shop'])
  const first = await postgres.db.selectFrom('sites').selectAll().execute()
  await sites.register(['shop', 'shop', 'blog'])
  expect(await sites.find('shop')).toBeDefined()
  expect(await sites.find('blog')).toBeDefined()
  expect(await postgres.db.selectFrom('sites').selectAll().where('site_id', '=', 'shop').execute()).toStrictEqual(first)
})

test('none to register is fine', async () => {
  await sites.register([])
})

test.each(['Shop', ' shop', 'ſhop', '\u{1F600}', "'; DROP TABLE sites; --", '\u00fc', 'u\u0308', '\uFFFD'])(
  '%j is a site of its own',
  async (siteId) => {
    expect(await sites.find(siteId)).toBeUndefined()
    await sites.register([siteId])
    expect(await sites.find(siteId)).toBeDefined()
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

const plain = { timezone: 'UTC', conversion_event: null, retention_days: null }

/** Postgres's clock, as polls go by it. */
const asOf = async () => (await sites.changedSince(undefined)).asOf

describe('a site', () => {
  test('that an event registered has its id as its name, and else the defaults', async () => {
    await sites.registerFor('key_gateway', ['by-event'])
    expect(await sites.find('by-event')).toStrictEqual({
      siteId: 'by-event',
      settings: { name: 'by-event', ...plain },
      createdAt: expect.any(Date),
    })
    expect(await sites.find('nobody')).toBeUndefined()
  })

  test('is created with what is given, once', async () => {
    const settings = { name: 'Shop', timezone: 'Europe/Berlin', conversion_event: 'order', retention_days: 30 }
    const record = await sites.create('created', settings, 'key_admin')
    expect(record).toStrictEqual({ siteId: 'created', settings, createdAt: expect.any(Date) })
    expect(await sites.find('created')).toStrictEqual(record)
    expect(await sites.create('created', { name: 'Other' }, 'key_other')).toBeUndefined()
    expect(await sites.find('created')).toStrictEqual(record)
    expect((await sites.create('created-plainly', {}, 'key_admin'))?.settings).toStrictEqual({
      name: 'created-plainly',
      ...plain,
    })
  })

  test('is created once by many at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => sites.create('created-by-many', {}, 'key_admin')),
    )
    expect(answers.filter((record) => record !== undefined)).toHaveLength(1)
  })

  test('is changed in what is given; null clears; others stay', async () => {
    const before = await sites.create('changed', { name: 'Shop', conversion_event: 'order', retention_days: 7 }, 'key')
    const other = await sites.create('not-changed', { name: 'Other' }, 'key')
    const settings = { name: 'Shop', timezone: 'Asia/Tokyo', conversion_event: null, retention_days: 7 }
    const record = { ...before, settings }
    expect(await sites.update('changed', { timezone: 'Asia/Tokyo', conversion_event: null })).toStrictEqual(record)
    expect(await sites.find('changed')).toStrictEqual(record)
    expect(await sites.find('not-changed')).toStrictEqual(other)
    expect(await sites.update('nobody', { name: 'x' })).toBeUndefined()
  })
})

test('lists are in the order of the ids’ bytes, in pages, with the number of all', async () => {
  await postgres.db.deleteFrom('sites').execute()
  const ids = ['', ' x', '-', 'A', 'B', 'a', 'a b', 'ab', 'b', '\u00e4', '\u2713', '\u{1F600}']
  await sites.register(ids.toReversed())
  const idsOf = async (limit: number, offset: number, siteIds: readonly string[] | null = null) => {
    const page = await sites.list({ limit, offset }, siteIds)
    return { ids: page.sites.map(({ siteId }) => siteId), total: page.total }
  }
  expect(await idsOf(50, 0)).toStrictEqual({ ids, total: 12 })
  expect(await idsOf(2, 3)).toStrictEqual({ ids: ['A', 'B'], total: 12 })
  expect(await idsOf(2, 12)).toStrictEqual({ ids: [], total: 12 })
  expect(await idsOf(50, 0, ['b', 'a', 'nobody'])).toStrictEqual({ ids: ['a', 'b'], total: 2 })
  expect(await idsOf(1, 1, ['b', 'a'])).toStrictEqual({ ids: ['b'], total: 2 })
  expect(await idsOf(50, 0, [])).toStrictEqual({ ids: [], total: 0 })
  expect((await sites.list({ limit: 1, offset: 3 }, null)).sites).toStrictEqual([await sites.find('A')])
  await postgres.db.deleteFrom('sites').execute()
})

describe('what gateways ask', () => {
  test('findKnown tells the registered ones, with their retention', async () => {
    await sites.create('kept-7', { retention_days: 7 }, 'key')
    await sites.register(['kept'])
    const known = await sites.findKnown(['kept', 'nobody', 'kept-7'])
    expect(Object.fromEntries(known)).toStrictEqual({ kept: null, 'kept-7': 7 })
    expect((await sites.findKnown([])).size).toBe(0)
  })

  test('registerFor tells the retention of those that were known', async () => {
    await sites.create('kept-30', { retention_days: 30 }, 'key')
    expect(await sites.registerFor('key_gateway', ['kept-30', 'new-here'])).toStrictEqual({
      refused: [],
      retryAfterSeconds: 0,
      retentionDays: new Map([['kept-30', 30]]),
    })
  })

  test('changedSince tells what was created, named or changed on purpose, and not what events registered', async () => {
    await forgetChanges(postgres)
    const since = await asOf()
    await sites.registerFor('key_gateway', ['poll-event'])
    await sites.register(['poll-found'])
    expect((await sites.changedSince(since)).sites).toStrictEqual([])
    await sites.create('poll-created', { retention_days: 5 }, 'key')
    await registerNamed(postgres.db, ['poll-named', 'poll-event'], 'key')
    await sites.update('poll-found', { retention_days: 9 })
    const { sites: changed } = await sites.changedSince(since)
    expect(Object.fromEntries(changed.map(({ siteId, retentionDays }) => [siteId, retentionDays]))).toStrictEqual({
      'poll-created': 5,
      'poll-named': null,
      'poll-found': 9,
    })
    await forgetChanges(postgres)
    expect((await sites.changedSince(await asOf())).sites).toStrictEqual([])
  })

  test('changedSince does not miss a change that was stamped before and committed after the last call', async () => {
    await sites.create('poll-late', {}, 'key')
    await forgetChanges(postgres)
    let since: Date | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`UPDATE sites SET retention_days = 3, changed_at = now() WHERE site_id = 'poll-late'`.execute(
        transaction,
      )
      since = await asOf()
      expect((await sites.changedSince(since)).sites).toStrictEqual([])
    })
    expect((await sites.changedSince(since)).sites).toStrictEqual([{ siteId: 'poll-late', retentionDays: 3 }])
  })
})

describe('a key registers 1,000 sites in 24 hours', () => {
  const max = eventLimits.newSitesPerDayMax
  const none = { refused: [], retryAfterSeconds: 0, retentionDays: new Map() }
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
    expect(await sites.find('one-more')).toBeUndefined()
    expect(await registeredBy('one')).toBe(max)
  })

  test('the first in the order in which they were named', async () => {
    await sites.registerFor('order', named('order', max - 2))
    expect((await sites.registerFor('order', ['z', 'order-0', 'm', 'z', 'a', 'b'])).refused).toStrictEqual(['a', 'b'])
    for (const [siteId, known] of Object.entries({ z: true, m: true, a: false, b: false })) {
      expect([siteId, (await sites.find(siteId)) !== undefined]).toStrictEqual([siteId, known])
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

  test('those that were named on purpose count, and are never refused', async () => {
    await registerNamed(postgres.db, named('on-purpose', max + 200), 'purpose')
    expect(await registeredBy('purpose')).toBe(max + 200)
    // 900 now, 200 twelve hours ago, 100 eighteen hours ago: when these are a day old there is no room yet.
    for (const [count, hours] of [
      [300, 12],
      [100, 6],
    ]) {
      await sql`
        UPDATE sites SET created_at = created_at - make_interval(hours => ${hours})
        WHERE site_id IN (SELECT site_id FROM sites WHERE registered_by = 'purpose' ORDER BY site_id LIMIT ${count})`.execute(
        postgres.db,
      )
    }
    const { refused, retryAfterSeconds } = await sites.registerFor('purpose', ['purpose-more'])
    expect(refused).toStrictEqual(['purpose-more'])
    expect(retryAfterSeconds).toBeGreaterThan(day / 2 - 60)
    expect(retryAfterSeconds).toBeLessThanOrEqual(day / 2)
    await registerNamed(postgres.db, ['purpose-more'], 'purpose')
    expect(await sites.find('purpose-more')).toBeDefined()
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
    for (const siteId of refused) expect(await sites.find(siteId)).toBeUndefined()
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
