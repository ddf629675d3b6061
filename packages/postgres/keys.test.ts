import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { generateKey, hashKey, keyHint } from '@sluice/access/api-key'
import type { KeyRecord, KeyStore, NewKey } from '@sluice/access/keys'
import type { SiteStore } from '@sluice/access/sites'
import {
  forgetChanges,
  lockAwaited,
  newTestKey,
  openTestPostgres,
  type TestPostgres,
} from '../../tests/support/test-postgres.ts'
import { createAdminKey, replaceAdminKey } from './admin-key.ts'
import { keyStore } from './keys.ts'
import { siteStore } from './sites.ts'
import { within } from './within.ts'

let postgres: TestPostgres
let keys: KeyStore
let sites: SiteStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  keys = keyStore(postgres)
  sites = siteStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('api_keys').execute()
})

const newKey = (parts: Partial<NewKey> = {}): NewKey => newTestKey(parts).newKey

async function create(parts: Partial<NewKey> = {}): Promise<KeyRecord> {
  const record = await keys.create(newKey(parts), null)
  if (!record) throw new Error('the key was there already')
  return record
}

/** The time of Postgres, whose clock sets the times of stored rows. */
async function now(): Promise<number> {
  const { rows } = await sql<{ at: Date }>`SELECT clock_timestamp() AS at`.execute(postgres.db)
  return rows[0]?.at.getTime() ?? Number.NaN
}

describe('create', () => {
  test('returns the stored record, which find and findByHash return too', async () => {
    const before = await now()
    const key = newKey({
      environment: 'dev',
      scopes: ['admin'],
      siteIds: ['b', 'a'],
      rateLimits: { events_per_minute: 5 },
      expiresAt: Date.parse('2030-01-01T00:00:00.123Z'),
    })
    const { bootstrap: _bootstrap, ...rest } = key
    const record = await keys.create(key, null)
    expect(record).toStrictEqual({
      ...rest,
      createdAt: expect.any(Number),
      lastUsedAt: null,
      revokedAt: null,
      rotatedTo: null,
    })
    expect(record?.createdAt).toBeGreaterThanOrEqual(before)
    expect(await keys.find(key.keyId, null)).toStrictEqual(record)
    expect(await keys.findByHash(key.hash)).toStrictEqual(record)
  })

  test('does not change a stored key of the same hash', async () => {
    const first = await create({ name: 'first' })
    expect(await keys.create(newKey({ hash: first.hash, name: 'second', scopes: ['admin'] }), null)).toBeUndefined()
    expect(await keys.findByHash(first.hash)).toStrictEqual(first)
  })

  test('stores a key once when many processes create it concurrently', async () => {
    const key = newKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => keys.create({ ...key, keyId: `${key.keyId}_${n}` }, null)),
    )
    expect(answers.filter((record) => record !== undefined)).toHaveLength(1)
  })

  test('accepts the latest possible expiry', async () => {
    const expiresAt = 8_640_000_000_000_000
    const { keyId } = await create({ expiresAt })
    expect((await keys.find(keyId, null))?.expiresAt).toBe(expiresAt)
  })
})

/** The key that registered each site, by the id of the site. */
async function registered(): Promise<Record<string, string | null>> {
  const rows = await postgres.db.selectFrom('sites').select(['site_id', 'registered_by']).execute()
  return Object.fromEntries(rows.map((row) => [row.site_id, row.registered_by]))
}

describe('the sites of a new or changed key', () => {
  beforeEach(async () => {
    await postgres.db.deleteFrom('sites').execute()
  })

  test('are registered by the key of the request, and registered sites stay unchanged', async () => {
    await sites.register(['known'])
    await keys.create(newKey({ siteIds: ['new', 'known'] }), 'key_maker')
    expect(await registered()).toStrictEqual({ known: null, new: 'key_maker' })
    const { keyId } = await create()
    await keys.update(keyId, { keyId: 'key_changer', siteIds: null }, () => ({ siteIds: ['known', 'later'] }))
    expect(await registered()).toStrictEqual({ known: null, new: 'key_maker', later: 'key_changer' })
  })

  test('are not registered when the key is not stored', async () => {
    const { hash } = await create()
    expect(await keys.create(newKey({ hash, siteIds: ['new'] }), 'key_maker')).toBeUndefined()
    const { keyId } = await create()
    const refused = new Error('no')
    const change = () => {
      throw refused
    }
    await expect(keys.update(keyId, { keyId: 'key_changer', siteIds: null }, change)).rejects.toBe(refused)
    expect(await registered()).toStrictEqual({})
  })

  test('are registered beyond the daily limit of new sites, which holds for events only', async () => {
    const siteIds = Array.from({ length: 1_001 }, (_, n) => `s${n}`)
    await keys.create(newKey({ siteIds }), 'key_maker')
    expect(Object.keys(await registered())).toHaveLength(1_001)
  })

  test('never deadlock when concurrent requests name them in different orders', async () => {
    const siteIds = Array.from({ length: 200 }, (_, n) => `race-${n}`)
    await Promise.all(
      Array.from({ length: 8 }, (_, n) => create({ siteIds: n % 2 === 0 ? siteIds : siteIds.toReversed() })),
    )
    expect(Object.keys(await registered())).toHaveLength(200)
  })
})

describe('a caller that is bound to sites', () => {
  test('finds the keys that are bound to a part of these sites, and no others', async () => {
    const own = await create({ siteIds: ['a', 'b'] })
    const part = await create({ siteIds: ['b'] })
    const others = [
      await create(),
      await create({ siteIds: ['c'] }),
      await create({ siteIds: ['a', 'c'] }),
      await create({ siteIds: ['A'] }),
    ]
    const boundSites = ['b', 'a']
    for (const { keyId } of [own, part]) expect((await keys.find(keyId, boundSites))?.keyId).toBe(keyId)
    expect(await keys.list({ limit: 50, offset: 0 }, boundSites)).toStrictEqual({ keys: [part, own], total: 2 })
    expect(await keys.list({ limit: 1, offset: 1 }, boundSites)).toStrictEqual({ keys: [own], total: 2 })
    const actor = { keyId: 'key_asker', siteIds: boundSites }
    const unexpectedCall = () => {
      throw new Error('it was asked')
    }
    for (const { keyId } of others) {
      expect(await keys.find(keyId, boundSites)).toBeUndefined()
      expect(await keys.revoke(keyId, boundSites)).toBeUndefined()
      expect(await keys.update(keyId, actor, unexpectedCall)).toBeUndefined()
      expect(await keys.rotate(keyId, boundSites, unexpectedCall)).toBeUndefined()
      expect(await keys.find(keyId, null)).toMatchObject({ revokedAt: null, rotatedTo: null, expiresAt: null })
    }
    expect((await keys.revoke(part.keyId, boundSites))?.revokedAt).toStrictEqual(expect.any(Number))
  })

  test('finds no key when its list of sites is empty', async () => {
    await create({ siteIds: ['a'] })
    expect(await keys.list({ limit: 50, offset: 0 }, [])).toStrictEqual({ keys: [], total: 0 })
  })
})

const actor = { keyId: 'key_asker', siteIds: null }

describe('update', () => {
  test('changes the given fields, returns the stored record and changes no other key', async () => {
    const before = await create({ siteIds: ['a'], rateLimits: { admin_per_minute: 1 }, expiresAt: 4e12 })
    const other = await create()
    await keys.markUsed(new Map([[before.keyId, 1e12]]))
    const used = { ...before, lastUsedAt: 1e12 }
    const seenKeys: KeyRecord[] = []
    const change = (key: KeyRecord) => {
      seenKeys.push(key)
      return { name: 'new', siteIds: null }
    }
    const changed = { ...used, name: 'new', siteIds: null }
    expect(await keys.update(before.keyId, actor, change)).toStrictEqual(changed)
    expect(seenKeys).toStrictEqual([used])
    expect(await keys.find(before.keyId, null)).toStrictEqual(changed)
    const rest = { scopes: ['admin'], siteIds: ['b'], rateLimits: null, expiresAt: null } as const
    expect(await keys.update(before.keyId, actor, () => rest)).toStrictEqual({ ...changed, ...rest })
    expect(await keys.find(other.keyId, null)).toStrictEqual(other)
  })

  test('is returned by changedSince unless it changes nothing', async () => {
    const { keyId } = await create()
    await forgetChanges(postgres)
    const { cursor } = await keys.changedSince(undefined)
    await keys.update(keyId, actor, () => ({}))
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([])
    const changed = await keys.update(keyId, actor, () => ({ name: 'new' }))
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([changed])
  })

  test('loses no change when many processes update one key concurrently', async () => {
    const { keyId } = await create({ name: '' })
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => keys.update(keyId, actor, ({ name }) => ({ name: `${name}${n},` }))),
    )
    const numbers = (await keys.find(keyId, null))?.name.split(',').slice(0, -1).map(Number) ?? []
    expect(numbers.sort((a, b) => a - b)).toStrictEqual(Array.from({ length: 20 }, (_, n) => n))
  })
})

describe('rotate', () => {
  const replacement = () => {
    const { keyId, hash, hint } = newKey()
    return { keyId, hash, hint }
  }

  test('creates a key with the same rights and sets the expiry of the old key, which keeps its history', async () => {
    const old = await create({
      name: 'shop',
      environment: 'dev',
      scopes: ['admin'],
      siteIds: ['a'],
      rateLimits: { queries_per_minute: 7 },
    })
    await keys.markUsed(new Map([[old.keyId, 1e12]]))
    const used = { ...old, lastUsedAt: 1e12 }
    const next = replacement()
    const seenKeys: KeyRecord[] = []
    const created = await keys.rotate(old.keyId, null, (key) => {
      seenKeys.push(key)
      return { replacement: next, oldExpiresAt: 3e12 }
    })
    expect(seenKeys).toStrictEqual([used])
    expect(created).toStrictEqual({ ...old, ...next, createdAt: expect.any(Number) })
    expect(await keys.findByHash(next.hash)).toStrictEqual(created)
    expect(await keys.find(old.keyId, null)).toStrictEqual({
      ...used,
      expiresAt: 3e12,
      rotatedTo: next.keyId,
    })
  })

  test.each([
    [2e12, 3e12, 2e12],
    [3e12, 2e12, 2e12],
  ])('an old key with the expiry %d and the overlap until %d expires at %d', async (own, overlapped, expected) => {
    const old = await create({ expiresAt: own })
    const rotation = { replacement: replacement(), oldExpiresAt: overlapped }
    const created = await keys.rotate(old.keyId, null, () => rotation)
    expect((await keys.find(old.keyId, null))?.expiresAt).toBe(expected)
    expect(created?.expiresAt).toBe(own)
  })

  test('is returned by changedSince for both keys', async () => {
    const old = await create()
    await forgetChanges(postgres)
    const { cursor } = await keys.changedSince(undefined)
    const created = await keys.rotate(old.keyId, null, () => ({ replacement: replacement(), oldExpiresAt: Date.now() }))
    const changed = (await keys.changedSince(cursor)).changed.map(({ keyId }) => keyId)
    expect(changed.sort()).toStrictEqual([old.keyId, created?.keyId].sort())
  })

  test('changes neither key when the new one can not be stored', async () => {
    const [old, other] = [await create(), await create()]
    const taken = { ...replacement(), hash: other.hash }
    const rotated = keys.rotate(old.keyId, null, () => ({ replacement: taken, oldExpiresAt: Date.now() }))
    await expect(rotated).rejects.toMatchObject({ code: '23505' })
    expect(await keys.find(old.keyId, null)).toStrictEqual(old)
  })

  test('runs concurrent rotations of one key in sequence, the second on the result of the first', async () => {
    const old = await create()
    const seenKeys: (number | null)[] = []
    const rotate = (key: KeyRecord) => {
      seenKeys.push(key.expiresAt)
      return { replacement: replacement(), oldExpiresAt: 2e12 }
    }
    await Promise.all([keys.rotate(old.keyId, null, rotate), keys.rotate(old.keyId, null, rotate)])
    expect(seenKeys).toStrictEqual([null, 2e12])
  })

  test('of a bootstrap key creates a bootstrap key, which npm run admin-key revokes as well', async () => {
    const old = await create({ bootstrap: true })
    const created = await keys.rotate(old.keyId, null, () => ({ replacement: replacement(), oldExpiresAt: Date.now() }))
    expect(await keys.revokeBootstrapKeysExcept(old.keyId)).toBe(1)
    expect((await keys.find(created?.keyId ?? '', null))?.revokedAt).toStrictEqual(expect.any(Number))
  })

  test('of a bootstrap key that is under way creates a key which npm run admin-key revokes as well', async () => {
    const [old, kept] = [await create({ bootstrap: true }), await create({ bootstrap: true })]
    const next = replacement()
    let revocation: Promise<number> | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      const rotation = { replacement: next, oldExpiresAt: Date.now() }
      await keyStore(within(postgres, transaction)).rotate(old.keyId, null, () => rotation)
      revocation = keys.revokeBootstrapKeysExcept(kept.keyId)
      await lockAwaited(postgres)
    })
    expect(await revocation).toBe(2)
    expect((await keys.find(next.keyId, null))?.revokedAt).toStrictEqual(expect.any(Number))
  })
})

test('an unknown key is undefined for find, findByHash and revoke', async () => {
  expect(await keys.find('key_x', null)).toBeUndefined()
  expect(await keys.findByHash('x')).toBeUndefined()
  expect(await keys.revoke('key_x', null)).toBeUndefined()
})

test('findByHashes returns the keys that are stored', async () => {
  const [one, other] = [await create(), await create()]
  await create()
  const found = await keys.findByHashes([other.hash, 'unknown', one.hash])
  expect(new Set(found)).toStrictEqual(new Set([one, other]))
  expect(await keys.findByHashes([])).toStrictEqual([])
})

test('any returns true once a key is stored, revoked ones included', async () => {
  expect(await keys.hasAny()).toBe(false)
  const { keyId } = await create()
  await keys.revoke(keyId, null)
  expect(await keys.hasAny()).toBe(true)
})

test('newestAdmin returns the newest admin key that is bound to no sites, not revoked and not expired', async () => {
  expect(await keys.newestAdmin()).toBeUndefined()
  const at = (seconds: number) => Date.now() + seconds * 1000
  await create({ scopes: ['admin'] })
  const right = await create({ scopes: ['stats:read', 'admin'], expiresAt: at(3600) })
  await create({ scopes: ['stats:read', 'cohorts:write'] })
  await create({ scopes: ['admin'], siteIds: ['a'] })
  await create({ scopes: ['admin'], siteIds: [] })
  await create({ scopes: ['admin'], expiresAt: at(-3600) })
  const { keyId } = await create({ scopes: ['admin'] })
  await keys.revoke(keyId, null)
  expect(await keys.newestAdmin()).toStrictEqual(right)
})

test('list returns pages of keys, the newest first, with the total number', async () => {
  const created: string[] = []
  for (let n = 0; n < 5; n++) created.unshift((await create()).keyId)
  const idsOf = async (limit: number, offset: number) => {
    const page = await keys.list({ limit, offset }, null)
    return { ids: page.keys.map(({ keyId }) => keyId), total: page.total }
  }
  expect(await idsOf(50, 0)).toStrictEqual({ ids: created, total: 5 })
  expect(await idsOf(2, 0)).toStrictEqual({ ids: created.slice(0, 2), total: 5 })
  expect(await idsOf(2, 4)).toStrictEqual({ ids: created.slice(4), total: 5 })
  expect(await idsOf(2, 5)).toStrictEqual({ ids: [], total: 5 })
  expect(await idsOf(1_000, Number.MAX_SAFE_INTEGER)).toStrictEqual({ ids: [], total: 5 })
})

test('a page of keys whose sites are too large together is refused, and a smaller one is answered', async () => {
  // As many sites as a key may have, with the longest names.
  const siteIds = Array.from({ length: 1_000 }, (_, n) => `${'\u{1F600}'.repeat(60)}${n}`)
  const { newKey: large } = newTestKey({ siteIds })
  await keys.create(large, null)
  await sql`
    INSERT INTO api_keys (key_id, name, environment, hash, hint, scopes, site_ids)
    SELECT 'key_large_' || n, name, environment, hash || n, hint, scopes, site_ids FROM api_keys, generate_series(1, 199) AS n
  `.execute(postgres.db)
  await expect(keys.list({ limit: 200, offset: 0 }, null)).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: limit is too high: the page would be too large, so use a lower limit',
  })
  const { keys: listed, total } = await keys.list({ limit: 50, offset: 150 }, null)
  expect([listed.length, total]).toStrictEqual([50, 200])
})

describe('revoke', () => {
  test('returns the time of the first revocation, also when it is repeated', async () => {
    const { keyId } = await create()
    const first = await keys.revoke(keyId, null)
    expect(first?.revokedAt).toStrictEqual(expect.any(Number))
    const second = await keys.revoke(keyId, null)
    expect(second?.revokedAt).toBe(first?.revokedAt)
  })

  test('changes no other key', async () => {
    const [one, other] = [await create(), await create()]
    await keys.revoke(one.keyId, null)
    expect((await keys.find(other.keyId, null))?.revokedAt).toBeNull()
  })
})

test('revokeBootstrapKeysExcept revokes all other bootstrap keys and counts those that were not revoked before', async () => {
  const [old, older, kept] = [
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
  ]
  const other = await create({ scopes: ['admin'] })
  await keys.revoke(older.keyId, null)
  const revokedBefore = (await keys.find(older.keyId, null))?.revokedAt
  expect(await keys.revokeBootstrapKeysExcept(kept.keyId)).toBe(1)
  expect((await keys.find(old.keyId, null))?.revokedAt).toStrictEqual(expect.any(Number))
  expect((await keys.find(older.keyId, null))?.revokedAt).toBe(revokedBefore)
  expect((await keys.find(kept.keyId, null))?.revokedAt).toBeNull()
  expect((await keys.find(other.keyId, null))?.revokedAt).toBeNull()
  expect(await keys.revokeBootstrapKeysExcept(kept.keyId)).toBe(0)
})

describe('changedSince', () => {
  test('returns no key but a cursor when it is called without one', async () => {
    await create()
    const { changed, cursor } = await keys.changedSince(undefined)
    expect(changed).toStrictEqual([])
    expect(cursor).toMatch(/^\d+$/)
  })

  test('returns a key that was revoked since', async () => {
    const key = await create()
    const { cursor } = await keys.changedSince(undefined)
    await keys.revoke(key.keyId, null)
    const { changed } = await keys.changedSince(cursor)
    expect(changed).toStrictEqual([await keys.find(key.keyId, null)])
    expect(changed[0]?.revokedAt).toStrictEqual(expect.any(Number))
  })

  test('returns a change whose transaction began long before the last call and was committed after it', async () => {
    const key = await create()
    await forgetChanges(postgres)
    let cursor: string | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      // now() is the time at which a transaction began.
      await sql`UPDATE api_keys SET revoked_at = now(), changed_at = now() - interval '1 hour'`.execute(transaction)
      for (let polls = 0; polls < 3; polls++) {
        const poll = await keys.changedSince(cursor)
        expect(poll.changed).toStrictEqual([])
        cursor = poll.cursor
      }
    })
    const { changed } = await keys.changedSince(cursor)
    expect(changed.map(({ keyId }) => keyId)).toStrictEqual([key.keyId])
  })

  test('leaves out keys of a restored backup, whose transactions are those of another server', async () => {
    const key = await create()
    await sql`UPDATE api_keys SET changed_xid = '18446744073709551615'`.execute(postgres.db)
    const { cursor } = await keys.changedSince(undefined)
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([])
    const revoked = await keys.revoke(key.keyId, null)
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([revoked])
  })

  test('leaves out keys that changed before the given cursor', async () => {
    await create()
    await forgetChanges(postgres)
    const { cursor } = await keys.changedSince(undefined)
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([])
  })
})

describe('markUsed', () => {
  test('moves last_used_at forward and never back, to the millisecond', async () => {
    const { keyId } = await create()
    const [early, late] = [Date.UTC(2026, 0, 1, 0, 0, 0, 1), Date.UTC(2026, 0, 1, 0, 0, 20, 2)]
    for (const [at, expected] of [
      [early, early],
      [late, late],
      [early, late],
    ] as const) {
      await keys.markUsed(new Map([[keyId, at]]))
      expect((await keys.find(keyId, null))?.lastUsedAt).toBe(expected)
    }
  })

  test('writes no key whose last_used_at is at most 20 s behind', async () => {
    const { keyId } = await create()
    const at = Date.UTC(2026, 0)
    const version = async () =>
      (await sql`SELECT xmin, last_used_at FROM api_keys WHERE key_id = ${keyId}`.execute(postgres.db)).rows
    await keys.markUsed(new Map([[keyId, at]]))
    const written = await version()
    await keys.markUsed(new Map([[keyId, at + 20_000]]))
    expect(await version()).toStrictEqual(written)
    await keys.markUsed(new Map([[keyId, at + 20_001]]))
    expect((await keys.find(keyId, null))?.lastUsedAt).toBe(at + 20_001)
  })

  test('waits for no lock: it writes the other keys and returns the locked ones', async () => {
    const [locked, other] = [await create(), await create()]
    const at = Date.now()
    const uses = new Map([locked.keyId, other.keyId].map((keyId) => [keyId, at]))
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`SELECT FROM api_keys WHERE key_id = ${locked.keyId} FOR UPDATE`.execute(transaction)
      expect(await keys.markUsed(uses)).toStrictEqual([locked.keyId])
      expect((await keys.find(other.keyId, null))?.lastUsedAt).toBe(at)
    })
    expect(await keys.markUsed(uses)).toStrictEqual([])
    expect((await keys.find(locked.keyId, null))?.lastUsedAt).toBe(at)
  })

  test('accepts several keys, unknown keys and an empty list', async () => {
    const [one, other] = [await create(), await create()]
    const at = Date.now()
    await keys.markUsed(new Map([one.keyId, 'key_unknown', other.keyId].map((keyId) => [keyId, at])))
    expect((await keys.find(one.keyId, null))?.lastUsedAt).toBe(at)
    expect((await keys.find(other.keyId, null))?.lastUsedAt).toBe(at)
    await keys.markUsed(new Map())
  })

  test('is no change that changedSince returns', async () => {
    const { keyId } = await create()
    await forgetChanges(postgres)
    const { cursor } = await keys.changedSince(undefined)
    await keys.markUsed(new Map([[keyId, Date.now()]]))
    expect((await keys.changedSince(cursor)).changed).toStrictEqual([])
  })

  test('never deadlocks when many processes mark the same keys concurrently', async () => {
    const ids: string[] = []
    for (let n = 0; n < 200; n++) ids.push((await create()).keyId)
    // With many more rows and fresh statistics the planner looks the keys up in the order of the list.
    await sql`
      INSERT INTO api_keys (key_id, name, environment, scopes, hash, hint)
      SELECT 'key_filler_' || n, 'x', 'prod', '{}', 'filler' || n, 'x' FROM generate_series(1, 20000) AS n`.execute(
      postgres.db,
    )
    await sql`ANALYZE api_keys`.execute(postgres.db)
    for (let round = 0; round < 10; round++) {
      await Promise.all(
        Array.from({ length: 8 }, (_, n) => {
          const order = n % 2 === 0 ? ids : ids.toReversed()
          return keys.markUsed(new Map(order.map((keyId) => [keyId, Date.now()])))
        }),
      )
    }
  })
})

describe('an admin key', () => {
  test('is stored as its hash with the scope admin, a name, a hint and the highest limits', async () => {
    const created = await createAdminKey(keys)
    const record = await keys.find(created?.keyId ?? '', null)
    expect(record).toMatchObject({
      name: 'admin',
      environment: 'prod',
      scopes: ['admin'],
      hash: hashKey(created?.key ?? ''),
      hint: keyHint(created?.key ?? ''),
      siteIds: null,
      rateLimits: { events_per_minute: 10_000_000, queries_per_minute: 10_000_000, admin_per_minute: 10_000_000 },
      expiresAt: null,
    })
    expect(created?.keyId).toMatch(/^key_[\dA-HJKMNP-TV-Z]{26}$/)
    const { rows } = await sql<{ text: string }>`SELECT api_keys::text AS text FROM api_keys`.execute(postgres.db)
    expect(rows[0]?.text).not.toContain(created?.key)
  })

  test('is stored once in its environment when the key is given', async () => {
    const key = generateKey('dev')
    expect(await createAdminKey(keys, key)).toMatchObject({ key })
    expect(await createAdminKey(keys, key)).toBeUndefined()
    expect(await keys.findByHash(hashKey(key))).toMatchObject({ environment: 'dev' })
  })

  test('is valid alone of those that concurrent replacements have returned', async () => {
    const replaced = await Promise.all(Array.from({ length: 4 }, () => replaceAdminKey(postgres)))
    const found = await keys.findByHashes(replaced.map(({ key }) => hashKey(key)))
    expect(found.map(({ revokedAt }) => revokedAt === null).sort()).toStrictEqual([false, false, false, true])
  })
})
