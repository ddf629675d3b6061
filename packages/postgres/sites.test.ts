import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { SiteStore } from '@sluice/access/sites'
import { eventLimits } from '@sluice/contracts/event-limits'
import { isRetryable } from '@sluice/runtime/errors'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { forgetChanges, openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { erasureStore } from './erasures.ts'
import { openPostgres } from './open.ts'
import { registerNamed, siteStore } from './sites.ts'

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

test('a registered site is found, and a second registration does not change it', async () => {
  expect(await sites.find('shop')).toBeUndefined()
  await sites.register(['shop'])
  const first = await postgres.db.selectFrom('sites').selectAll().execute()
  await sites.register(['shop', 'shop', 'blog'])
  expect(await sites.find('shop')).toBeDefined()
  expect(await sites.find('blog')).toBeDefined()
  expect(await postgres.db.selectFrom('sites').selectAll().where('site_id', '=', 'shop').execute()).toStrictEqual(first)
})

test('an empty list of sites is accepted', async () => {
  await sites.register([])
})

test.each(['Shop', ' shop', 'ſhop', '\u{1F600}', "'; DROP TABLE sites; --", '\u00fc', 'u\u0308', '\uFFFD'])(
  '%j is a different site from all others',
  async (siteId) => {
    expect(await sites.find(siteId)).toBeUndefined()
    await sites.register([siteId])
    expect(await sites.find(siteId)).toBeDefined()
  },
)

test('the greatest number of sites in a batch is registered by one call', async () => {
  const before = await count()
  await sites.register(Array.from({ length: 2_000 }, (_, n) => `batch-${n}`))
  expect(await count()).toBe(before + 2_000)
})

test('concurrent registrations of the same sites in different orders never deadlock', async () => {
  const before = await count()
  for (let round = 0; round < 10; round++) {
    const ids = Array.from({ length: 300 }, (_, n) => `race-${round}-${n}`)
    const orders = [ids, ids.toReversed(), [...ids.slice(150), ...ids.slice(0, 150)]]
    await Promise.all(Array.from({ length: 9 }, (_, n) => sites.register(orders[n % 3] ?? ids)))
  }
  expect(await count()).toBe(before + 3_000)
})

const defaultSettings = { timezone: 'UTC', conversion_event: null, retention_days: null }

/** The cursor of a first poll. */
const firstCursor = async () => (await sites.changedSince(undefined)).cursor

describe('a site', () => {
  test('has its id as its name and default settings when an event registered it', async () => {
    await sites.registerFor('key_gateway', ['by-event'])
    expect(await sites.find('by-event')).toStrictEqual({
      siteId: 'by-event',
      settings: { name: 'by-event', ...defaultSettings },
      createdAt: expect.any(Number),
    })
    expect(await sites.find('nobody')).toBeUndefined()
  })

  test('is created once with the given settings', async () => {
    const settings = { name: 'Shop', timezone: 'Europe/Berlin', conversion_event: 'order', retention_days: 30 }
    const record = await sites.create('created', settings, 'key_admin')
    expect(record).toStrictEqual({ siteId: 'created', settings, createdAt: expect.any(Number) })
    expect(await sites.find('created')).toStrictEqual(record)
    expect(await sites.create('created', { name: 'Other' }, 'key_other')).toBeUndefined()
    expect(await sites.find('created')).toStrictEqual(record)
    expect((await sites.create('created-plainly', {}, 'key_admin'))?.settings).toStrictEqual({
      name: 'created-plainly',
      ...defaultSettings,
    })
  })

  test('is created once by concurrent calls', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => sites.create('created-by-many', {}, 'key_admin')),
    )
    expect(answers.filter((record) => record !== undefined)).toHaveLength(1)
  })

  test('that was created with the same settings more than a minute ago is not the one of an attempt under way', async () => {
    const created = await sites.create('minute', { name: 'Minute' }, 'key_1')
    expect(await sites.findCreated('minute', { name: 'Minute' }, 'key_1')).toStrictEqual(created)
    await sql`
      UPDATE sites SET created_at = created_at - interval '1 minute', changed_at = changed_at - interval '1 minute'
      WHERE site_id = 'minute'`.execute(postgres.db)
    expect(await sites.findCreated('minute', { name: 'Minute' }, 'key_1')).toBeUndefined()
  })

  test('changes in the given settings, of which null removes one, and no other site changes', async () => {
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

test('list returns pages in the order of the bytes of the ids with the total number', async () => {
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

describe('the methods of gateways', () => {
  test('findRegistered returns the registered sites with their retention', async () => {
    await sites.create('kept-7', { retention_days: 7 }, 'key')
    await sites.register(['kept'])
    const known = await sites.findRegistered(['kept', 'nobody', 'kept-7'])
    expect(Object.fromEntries(known)).toStrictEqual({ kept: null, 'kept-7': 7 })
    expect((await sites.findRegistered([])).size).toBe(0)
  })

  test('registerFor returns the retention of the sites that were registered before', async () => {
    await sites.create('kept-30', { retention_days: 30 }, 'key')
    expect(await sites.registerFor('key_gateway', ['kept-30', 'new-here'])).toStrictEqual({
      refused: [],
      retryAfterSeconds: 0,
      retentionDays: new Map([['kept-30', 30]]),
    })
  })

  test('changedSince returns sites that an administrator named or changed, and none that events registered', async () => {
    await forgetChanges(postgres)
    const since = await firstCursor()
    await sites.registerFor('key_gateway', ['poll-event'])
    await sites.register(['poll-found'])
    expect((await sites.changedSince(since)).changed).toStrictEqual([])
    await sites.create('poll-created', { retention_days: 5 }, 'key')
    await registerNamed(postgres.db, ['poll-named', 'poll-event'], 'key')
    await sites.update('poll-found', { retention_days: 9 })
    const { changed } = await sites.changedSince(since)
    expect(Object.fromEntries(changed.map(({ siteId, retentionDays }) => [siteId, retentionDays]))).toStrictEqual({
      'poll-created': 5,
      'poll-named': null,
      'poll-found': 9,
    })
    await forgetChanges(postgres)
    expect((await sites.changedSince(await firstCursor())).changed).toStrictEqual([])
  })

  test('changedSince returns the sites that were deleted, however late that was committed', async () => {
    await sites.create('poll-deleted', {}, 'key')
    await forgetChanges(postgres)
    const erasure = { siteId: 'poll-deleted', kind: 'site', hashes: null, before: null, requestedAt: 0 } as const
    let since: string | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`INSERT INTO erasures (erasure_id, site_id, kind, status, step, key_id, requested_at)
        VALUES ('era_late', 'poll-late-deleted', 'site', 'queued', 'tombstone', 'key', now())`.execute(transaction)
      since = await firstCursor()
      await erasureStore(postgres).createForSite({ ...erasure, erasureId: 'era_site', keyId: 'key' }, () => 0)
      await erasureStore(postgres).create({
        ...erasure,
        kind: 'before',
        before: 1,
        erasureId: 'era_before',
        keyId: 'key',
      })
      expect((await sites.changedSince(since)).deleted).toStrictEqual(['poll-deleted'])
    })
    expect((await sites.changedSince(since)).deleted.toSorted()).toStrictEqual(['poll-deleted', 'poll-late-deleted'])
    // A cursor is the oldest open transaction of the server: other databases of the tests may have one that is older.
    await waitUntil(
      async () => (await sites.changedSince(await firstCursor())).deleted.length === 0,
      'older transactions have ended',
    )
  })

  test('changedSince returns a change whose transaction began long before the last call and was committed after it', async () => {
    await sites.create('poll-late', {}, 'key')
    await forgetChanges(postgres)
    let since: string | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`UPDATE sites SET retention_days = 3, changed_at = now() - interval '1 hour' WHERE site_id = 'poll-late'`.execute(
        transaction,
      )
      since = await firstCursor()
      expect((await sites.changedSince(since)).changed).toStrictEqual([])
    })
    expect((await sites.changedSince(since)).changed).toStrictEqual([{ siteId: 'poll-late', retentionDays: 3 }])
  })
})

describe('the limit of 1,000 new sites of a key in 24 hours', () => {
  const max = eventLimits.newSitesPerDayMax
  const none = { refused: [], retryAfterSeconds: 0, retentionDays: new Map() }
  const day = 86_400
  /** Registers sites, again where the call has waited too long for a lock; returns those that are refused. */
  const registerPatiently = async (store: SiteStore, keyId: string, siteIds: string[]): Promise<readonly string[]> => {
    for (;;) {
      try {
        return (await store.registerFor(keyId, siteIds)).refused
      } catch (error) {
        if (!isRetryable(error)) throw error
      }
    }
  }
  const siteIdsOf = (prefix: string, count: number): string[] =>
    Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

  async function registeredBy(keyId: string): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      SELECT count(*)::int AS count FROM sites WHERE registered_by = ${keyId}`.execute(postgres.db)
    return rows[0]?.count ?? -1
  }

  /** Moves the registrations of a key into the past. */
  async function moveIntoPast(keyId: string, seconds: number): Promise<void> {
    await sql`
      UPDATE sites SET created_at = created_at - make_interval(secs => ${seconds}) WHERE registered_by = ${keyId}`.execute(
      postgres.db,
    )
  }

  test('refuses further sites, which stay unregistered', async () => {
    expect(await sites.registerFor('one', siteIdsOf('one', max))).toStrictEqual(none)
    const { refused, retryAfterSeconds } = await sites.registerFor('one', ['one-more'])
    expect(refused).toStrictEqual(['one-more'])
    expect(retryAfterSeconds).toBeGreaterThan(day - 60)
    expect(retryAfterSeconds).toBeLessThanOrEqual(day)
    expect(await sites.find('one-more')).toBeUndefined()
    expect(await registeredBy('one')).toBe(max)
  })

  test('admits the first sites in the given order', async () => {
    await sites.registerFor('order', siteIdsOf('order', max - 2))
    expect((await sites.registerFor('order', ['z', 'order-0', 'm', 'z', 'a', 'b'])).refused).toStrictEqual(['a', 'b'])
    for (const [siteId, known] of Object.entries({ z: true, m: true, a: false, b: false })) {
      expect([siteId, (await sites.find(siteId)) !== undefined]).toStrictEqual([siteId, known])
    }
  })

  test('holds within one call', async () => {
    const all = siteIdsOf('call', max + 500)
    expect((await sites.registerFor('call', all)).refused).toStrictEqual(all.slice(max))
    expect(await registeredBy('call')).toBe(max)
  })

  test('does not count registered sites, whichever key registered them', async () => {
    await sites.registerFor('first', siteIdsOf('theirs', 500))
    await sites.register(siteIdsOf('nobody', 500))
    await sites.registerFor('second', siteIdsOf('second', max))
    const known = [...siteIdsOf('theirs', 500), ...siteIdsOf('nobody', 500), ...siteIdsOf('second', max)]
    expect(await sites.registerFor('second', known)).toStrictEqual(none)
    expect((await sites.registerFor('second', [...known, 'second-more'])).refused).toStrictEqual(['second-more'])
    // A site that one key may not register can be registered by another key.
    expect(await sites.registerFor('first', ['second-more'])).toStrictEqual(none)
  })

  test('admits one more site for each that was registered 24 hours ago', async () => {
    await sites.registerFor('days', siteIdsOf('early', 1))
    await moveIntoPast('days', day / 2)
    await sites.registerFor('days', siteIdsOf('late', max - 1))
    const atLimit = await sites.registerFor('days', ['days-more'])
    expect(atLimit.refused).toStrictEqual(['days-more'])
    expect(atLimit.retryAfterSeconds).toBeGreaterThan(day / 2 - 60)
    expect(atLimit.retryAfterSeconds).toBeLessThanOrEqual(day / 2)
    await moveIntoPast('days', day / 2)
    expect((await sites.registerFor('days', ['days-more', 'days-again'])).refused).toStrictEqual(['days-again'])
    await moveIntoPast('days', day)
    expect(await sites.registerFor('days', siteIdsOf('tomorrow', max))).toStrictEqual(none)
  })

  test('counts sites that an administrator named but never refuses them', async () => {
    await registerNamed(postgres.db, siteIdsOf('on-purpose', max + 200), 'purpose')
    expect(await registeredBy('purpose')).toBe(max + 200)
    // 900 sites now, 200 twelve hours ago and 100 eighteen hours ago: when the oldest are a day old, 1,100 still count.
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

  test('is exact for concurrent processes with the same and with different sites', async () => {
    const processes = Array.from({ length: 4 }, () => openPostgres(postgres.url))
    const stores = processes.map(siteStore)
    await sites.registerFor('racing', siteIdsOf('racing', max - 100))
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const own = siteIdsOf(`racing-${n}`, 3)
        return registerPatiently(
          stores[n % 4] ?? sites,
          'racing',
          n % 2 === 0 ? [...own, 'racing-all'] : ['racing-all', ...own],
        )
      }),
    )
    expect(await registeredBy('racing')).toBe(max)
    const refused = new Set(answers.flat())
    // Each of 60 calls names 3 sites of its own, and all calls name one common site.
    expect(refused.size).toBe(181 - 100)
    for (const siteId of refused) expect(await sites.find(siteId)).toBeUndefined()
    await Promise.all(processes.map((process) => process.close()))
  })

  test('is exact while another key registers the same sites', async () => {
    await Promise.all([
      registerPatiently(sites, 'rival-a', siteIdsOf('rival', 900)),
      registerPatiently(sites, 'rival-b', siteIdsOf('rival', 900).reverse()),
    ])
    expect((await registeredBy('rival-a')) + (await registeredBy('rival-b'))).toBe(900)
    for (const key of ['rival-a', 'rival-b']) {
      const room = max - (await registeredBy(key))
      expect((await sites.registerFor(key, siteIdsOf(`${key}-own`, room + 1))).refused).toHaveLength(1)
    }
  })

  test('does not delay callers for long when a suspended process holds its lock', async () => {
    const suspended = openPostgres(postgres.url)
    const held = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const holding = suspended.db.transaction().execute(async (transaction) => {
      await sql`SELECT pg_advisory_xact_lock(5757006, hashtext('stuck'))`.execute(transaction)
      held.resolve(undefined)
      await gate.promise
    })
    await held.promise
    const elapsedMs = startStopwatch()
    await expect(sites.registerFor('stuck', ['stuck-1'])).rejects.toMatchObject({
      code: 'unavailable',
      retryable: true,
    })
    expect(elapsedMs()).toBeLessThan(5_000)
    expect(await sites.registerFor('other', ['stuck-1'])).toStrictEqual(none)
    gate.resolve(undefined)
    await holding
    expect(await sites.registerFor('stuck', ['stuck-2'])).toStrictEqual(none)
    await suspended.close()
  })
})
