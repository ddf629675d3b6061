import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import { sql } from 'kysely'
import { createAdminKey } from './admin-key.ts'
import { type KeyRecord, keyStore, type KeyStore, type NewKey } from './keys.ts'
import { siteStore, type SiteStore } from './sites.ts'
import { forgetChanges, newTestKey, openTestPostgres, type TestPostgres } from './testing.ts'

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

/** Postgres's clock, which stamps what the store writes. */
async function now(): Promise<Date> {
  const { rows } = await sql<{ at: Date }>`SELECT clock_timestamp() AS at`.execute(postgres.db)
  return rows[0]?.at ?? new Date(Number.NaN)
}

describe('create', () => {
  test('gives back what was stored, and find and findByHash find it', async () => {
    const before = await now()
    const key = newKey({
      environment: 'dev',
      scopes: ['admin'],
      siteIds: ['b', 'a'],
      rateLimits: { events_per_minute: 5 },
      expiresAt: new Date('2030-01-01T00:00:00.123Z'),
    })
    const { bootstrap: _bootstrap, ...rest } = key
    const record = await keys.create(key, null)
    expect(record).toStrictEqual({
      ...rest,
      createdAt: expect.any(Date),
      lastUsedAt: null,
      revokedAt: null,
      rotatedTo: null,
    })
    expect(record?.createdAt.getTime()).toBeGreaterThanOrEqual(before.getTime())
    expect(await keys.find(key.keyId, null)).toStrictEqual(record)
    expect(await keys.findByHash(key.hash)).toStrictEqual(record)
  })

  test('leaves a key of the same hash as it is', async () => {
    const first = await create({ name: 'first' })
    expect(await keys.create(newKey({ hash: first.hash, name: 'second', scopes: ['admin'] }), null)).toBeUndefined()
    expect(await keys.findByHash(first.hash)).toStrictEqual(first)
  })

  test('of one key at many places at once stores it once', async () => {
    const key = newKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => keys.create({ ...key, keyId: `${key.keyId}_${n}` }, null)),
    )
    expect(answers.filter((record) => record !== undefined)).toHaveLength(1)
  })

  test('takes the last moment that an expiry may name', async () => {
    const expiresAt = new Date(8_640_000_000_000_000)
    const { keyId } = await create({ expiresAt })
    expect((await keys.find(keyId, null))?.expiresAt).toStrictEqual(expiresAt)
  })
})

/** Ids of the sites that are registered, with the key that did so. */
async function registered(): Promise<Record<string, string | null>> {
  const rows = await postgres.db.selectFrom('sites').select(['site_id', 'registered_by']).execute()
  return Object.fromEntries(rows.map((row) => [row.site_id, row.registered_by]))
}

describe('sites that a key names', () => {
  beforeEach(async () => {
    await postgres.db.deleteFrom('sites').execute()
  })

  test('are registered with it in its maker’s name; known ones stay as they are', async () => {
    await sites.register(['known'])
    await keys.create(newKey({ siteIds: ['new', 'known'] }), 'key_maker')
    expect(await registered()).toStrictEqual({ known: null, new: 'key_maker' })
    const { keyId } = await create()
    await keys.update(keyId, { keyId: 'key_changer', siteIds: null }, () => ({ siteIds: ['known', 'later'] }))
    expect(await registered()).toStrictEqual({ known: null, new: 'key_maker', later: 'key_changer' })
  })

  test('are not when the key is not stored', async () => {
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

  test('are as many as it names: the limit of a day is for events', async () => {
    const siteIds = Array.from({ length: 1_001 }, (_, n) => `s${n}`)
    await keys.create(newKey({ siteIds }), 'key_maker')
    expect(Object.keys(await registered())).toHaveLength(1_001)
  })

  test('in other orders at once never deadlock', async () => {
    const siteIds = Array.from({ length: 200 }, (_, n) => `race-${n}`)
    await Promise.all(
      Array.from({ length: 8 }, (_, n) => create({ siteIds: n % 2 === 0 ? siteIds : siteIds.toReversed() })),
    )
    expect(Object.keys(await registered())).toHaveLength(200)
  })
})

describe('one who is bound to sites', () => {
  test('sees the keys that are bound to some of these, and no others', async () => {
    const own = await create({ siteIds: ['a', 'b'] })
    const part = await create({ siteIds: ['b'] })
    const others = [
      await create(),
      await create({ siteIds: ['c'] }),
      await create({ siteIds: ['a', 'c'] }),
      await create({ siteIds: ['A'] }),
    ]
    const bound = ['b', 'a']
    for (const { keyId } of [own, part]) expect((await keys.find(keyId, bound))?.keyId).toBe(keyId)
    expect(await keys.list({ limit: 50, offset: 0 }, bound)).toStrictEqual({ keys: [part, own], total: 2 })
    expect(await keys.list({ limit: 1, offset: 1 }, bound)).toStrictEqual({ keys: [own], total: 2 })
    const asker = { keyId: 'key_asker', siteIds: bound }
    const never = () => {
      throw new Error('it was asked')
    }
    for (const { keyId } of others) {
      expect(await keys.find(keyId, bound)).toBeUndefined()
      expect(await keys.revoke(keyId, bound)).toBeUndefined()
      expect(await keys.update(keyId, asker, never)).toBeUndefined()
      expect(await keys.rotate(keyId, bound, never)).toBeUndefined()
      expect(await keys.find(keyId, null)).toMatchObject({ revokedAt: null, rotatedTo: null, expiresAt: null })
    }
    expect((await keys.revoke(part.keyId, bound))?.revokedAt).toBeInstanceOf(Date)
  })

  test('to none at all sees none', async () => {
    await create({ siteIds: ['a'] })
    expect(await keys.list({ limit: 50, offset: 0 }, [])).toStrictEqual({ keys: [], total: 0 })
  })
})

const asker = { keyId: 'key_asker', siteIds: null }

describe('update', () => {
  test('changes what is given, gives back what is stored, and touches nothing else', async () => {
    const before = await create({ siteIds: ['a'], rateLimits: { admin_per_minute: 1 }, expiresAt: new Date(4e12) })
    const other = await create()
    await keys.markUsed(new Map([[before.keyId, new Date(1e12)]]))
    const used = { ...before, lastUsedAt: new Date(1e12) }
    const seen: KeyRecord[] = []
    const change = (key: KeyRecord) => {
      seen.push(key)
      return { name: 'new', siteIds: null }
    }
    const changed = { ...used, name: 'new', siteIds: null }
    expect(await keys.update(before.keyId, asker, change)).toStrictEqual(changed)
    expect(seen).toStrictEqual([used])
    expect(await keys.find(before.keyId, null)).toStrictEqual(changed)
    const rest = { scopes: ['admin'], siteIds: ['b'], rateLimits: null, expiresAt: null } as const
    expect(await keys.update(before.keyId, asker, () => rest)).toStrictEqual({ ...changed, ...rest })
    expect(await keys.find(other.keyId, null)).toStrictEqual(other)
  })

  test('is heard of by caches; one that changes nothing is not', async () => {
    const { keyId } = await create()
    await forgetChanges(postgres)
    const { asOf } = await keys.changedSince(undefined)
    await keys.update(keyId, asker, () => ({}))
    expect((await keys.changedSince(asOf)).keys).toStrictEqual([])
    const changed = await keys.update(keyId, asker, () => ({ name: 'new' }))
    expect((await keys.changedSince(asOf)).keys).toStrictEqual([changed])
  })

  test('of one key by many at once loses none of them', async () => {
    const { keyId } = await create({ name: '' })
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => keys.update(keyId, asker, ({ name }) => ({ name: `${name}${n},` }))),
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

  test('gives a key with the same grants; the old one expires, and keeps its history', async () => {
    const old = await create({
      name: 'shop',
      environment: 'dev',
      scopes: ['admin'],
      siteIds: ['a'],
      rateLimits: { queries_per_minute: 7 },
    })
    await keys.markUsed(new Map([[old.keyId, new Date(1e12)]]))
    const used = { ...old, lastUsedAt: new Date(1e12) }
    const next = replacement()
    const seen: KeyRecord[] = []
    const made = await keys.rotate(old.keyId, null, (key) => {
      seen.push(key)
      return { replacement: next, oldExpiresAt: new Date(3e12) }
    })
    expect(seen).toStrictEqual([used])
    expect(made).toStrictEqual({ ...old, ...next, createdAt: expect.any(Date) })
    expect(await keys.findByHash(next.hash)).toStrictEqual(made)
    expect(await keys.find(old.keyId, null)).toStrictEqual({
      ...used,
      expiresAt: new Date(3e12),
      rotatedTo: next.keyId,
    })
  })

  test.each([
    [2e12, 3e12, 2e12],
    [3e12, 2e12, 2e12],
  ])('a key that expires at %d and is to expire at %d does at %d', async (own, overlapped, expected) => {
    const old = await create({ expiresAt: new Date(own) })
    const rotation = { replacement: replacement(), oldExpiresAt: new Date(overlapped) }
    const made = await keys.rotate(old.keyId, null, () => rotation)
    expect((await keys.find(old.keyId, null))?.expiresAt).toStrictEqual(new Date(expected))
    expect(made?.expiresAt).toStrictEqual(new Date(own))
  })

  test('is heard of by caches, of both keys', async () => {
    const old = await create()
    await forgetChanges(postgres)
    const { asOf } = await keys.changedSince(undefined)
    const made = await keys.rotate(old.keyId, null, () => ({ replacement: replacement(), oldExpiresAt: new Date() }))
    const changed = (await keys.changedSince(asOf)).keys.map(({ keyId }) => keyId)
    expect(changed.sort()).toStrictEqual([old.keyId, made?.keyId].sort())
  })

  test('is both or none', async () => {
    const [old, other] = [await create(), await create()]
    const taken = { ...replacement(), hash: other.hash }
    const rotated = keys.rotate(old.keyId, null, () => ({ replacement: taken, oldExpiresAt: new Date() }))
    await expect(rotated).rejects.toMatchObject({ code: '23505' })
    expect(await keys.find(old.keyId, null)).toStrictEqual(old)
  })

  test('of one key by two at once: the second sees what the first left', async () => {
    const old = await create()
    const seen: (Date | null)[] = []
    const rotate = (key: KeyRecord) => {
      seen.push(key.expiresAt)
      return { replacement: replacement(), oldExpiresAt: new Date(2e12) }
    }
    await Promise.all([keys.rotate(old.keyId, null, rotate), keys.rotate(old.keyId, null, rotate)])
    expect(seen).toStrictEqual([null, new Date(2e12)])
  })

  test('of a key that a start made gives one that npm run admin-key replaces as well', async () => {
    const old = await create({ bootstrap: true })
    const made = await keys.rotate(old.keyId, null, () => ({ replacement: replacement(), oldExpiresAt: new Date() }))
    expect(await keys.revokeBootstrapKeysExcept(old.keyId)).toBe(1)
    expect((await keys.find(made?.keyId ?? '', null))?.revokedAt).toBeInstanceOf(Date)
  })
})

test('what is not there is undefined', async () => {
  expect(await keys.find('key_x', null)).toBeUndefined()
  expect(await keys.findByHash('x')).toBeUndefined()
  expect(await keys.revoke('key_x', null)).toBeUndefined()
})

test('any is true once any key was ever made, a revoked one too', async () => {
  expect(await keys.any()).toBe(false)
  const { keyId } = await create()
  await keys.revoke(keyId, null)
  expect(await keys.any()).toBe(true)
})

test('list is newest first, in pages, with the number of all', async () => {
  const made: string[] = []
  for (let n = 0; n < 5; n++) made.unshift((await create()).keyId)
  const idsOf = async (limit: number, offset: number) => {
    const page = await keys.list({ limit, offset }, null)
    return { ids: page.keys.map(({ keyId }) => keyId), total: page.total }
  }
  expect(await idsOf(50, 0)).toStrictEqual({ ids: made, total: 5 })
  expect(await idsOf(2, 0)).toStrictEqual({ ids: made.slice(0, 2), total: 5 })
  expect(await idsOf(2, 4)).toStrictEqual({ ids: made.slice(4), total: 5 })
  expect(await idsOf(2, 5)).toStrictEqual({ ids: [], total: 5 })
  expect(await idsOf(1_000, Number.MAX_SAFE_INTEGER)).toStrictEqual({ ids: [], total: 5 })
})

describe('revoke', () => {
  test('gives the time, and repeating it keeps the first', async () => {
    const { keyId } = await create()
    const first = await keys.revoke(keyId, null)
    expect(first?.revokedAt).toBeInstanceOf(Date)
    const second = await keys.revoke(keyId, null)
    expect(second?.revokedAt).toStrictEqual(first?.revokedAt)
  })

  test('touches no other key', async () => {
    const [one, other] = [await create(), await create()]
    await keys.revoke(one.keyId, null)
    expect((await keys.find(other.keyId, null))?.revokedAt).toBeNull()
  })
})

test('revokeBootstrapKeysExcept revokes those that a start made, but for one, and counts the new ones', async () => {
  const [old, older, kept] = [
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
  ]
  const other = await create({ scopes: ['admin'] })
  await keys.revoke(older.keyId, null)
  const revokedBefore = (await keys.find(older.keyId, null))?.revokedAt
  expect(await keys.revokeBootstrapKeysExcept(kept.keyId)).toBe(1)
  expect((await keys.find(old.keyId, null))?.revokedAt).toBeInstanceOf(Date)
  expect((await keys.find(older.keyId, null))?.revokedAt).toStrictEqual(revokedBefore)
  expect((await keys.find(kept.keyId, null))?.revokedAt).toBeNull()
  expect((await keys.find(other.keyId, null))?.revokedAt).toBeNull()
  expect(await keys.revokeBootstrapKeysExcept(kept.keyId)).toBe(0)
})

describe('changedSince', () => {
  test('begins with nothing but a time', async () => {
    await create()
    const { keys: changed, asOf } = await keys.changedSince(undefined)
    expect(changed).toStrictEqual([])
    expect(asOf).toBeInstanceOf(Date)
  })

  test('tells new and revoked keys', async () => {
    const key = await create()
    const { asOf } = await keys.changedSince(undefined)
    await keys.revoke(key.keyId, null)
    const { keys: changed } = await keys.changedSince(asOf)
    expect(changed).toStrictEqual([await keys.find(key.keyId, null)])
    expect(changed[0]?.revokedAt).toBeInstanceOf(Date)
  })

  test('does not miss a statement that was stamped before and committed after the last call', async () => {
    const key = await create()
    await sql`UPDATE api_keys SET changed_at = now() - interval '1 hour'`.execute(postgres.db)
    let asOf: Date | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`UPDATE api_keys SET revoked_at = now(), changed_at = now()`.execute(transaction)
      ;({ asOf } = await keys.changedSince(undefined))
      expect((await keys.changedSince(asOf)).keys).toStrictEqual([])
    })
    const { keys: changed } = await keys.changedSince(asOf)
    expect(changed.map(({ keyId }) => keyId)).toStrictEqual([key.keyId])
  })

  test('leaves out what changed long before', async () => {
    await create()
    await forgetChanges(postgres)
    const { asOf } = await keys.changedSince(undefined)
    expect((await keys.changedSince(asOf)).keys).toStrictEqual([])
  })
})

describe('markUsed', () => {
  test('moves last_used_at forward, never back, to the millisecond', async () => {
    const { keyId } = await create()
    const [early, late] = [new Date('2026-01-01T00:00:00.001Z'), new Date('2026-01-01T00:00:00.002Z')]
    for (const [at, expected] of [
      [early, early],
      [late, late],
      [early, late],
    ] as const) {
      await keys.markUsed(new Map([[keyId, at]]))
      expect((await keys.find(keyId, null))?.lastUsedAt).toStrictEqual(expected)
    }
  })

  test('takes many keys, unknown ones, and none', async () => {
    const [one, other] = [await create(), await create()]
    const at = new Date()
    await keys.markUsed(new Map([one.keyId, 'key_unknown', other.keyId].map((keyId) => [keyId, at])))
    expect((await keys.find(one.keyId, null))?.lastUsedAt).toStrictEqual(at)
    expect((await keys.find(other.keyId, null))?.lastUsedAt).toStrictEqual(at)
    await keys.markUsed(new Map())
  })

  test('is no change of rights: nobody’s cache hears of it', async () => {
    const { keyId } = await create()
    await forgetChanges(postgres)
    const { asOf } = await keys.changedSince(undefined)
    await keys.markUsed(new Map([[keyId, new Date()]]))
    expect((await keys.changedSince(asOf)).keys).toStrictEqual([])
  })

  test('of the same keys by many processes at once never deadlocks', async () => {
    const ids: string[] = []
    for (let n = 0; n < 200; n++) ids.push((await create()).keyId)
    // Many more rows and fresh statistics: the planner then looks the keys up in the order of the list.
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
          return keys.markUsed(new Map(order.map((keyId) => [keyId, new Date()])))
        }),
      )
    }
  })
})

describe('an admin key', () => {
  test('has every right, a name and the hint of its key, and is stored as its hash', async () => {
    const made = await createAdminKey(keys)
    const record = await keys.find(made?.keyId ?? '', null)
    expect(record).toMatchObject({
      name: 'admin',
      environment: 'prod',
      scopes: ['admin'],
      hash: hashKey(made?.key ?? ''),
      hint: keyHint(made?.key ?? ''),
      siteIds: null,
      rateLimits: { events_per_minute: 10_000_000, queries_per_minute: 10_000_000, admin_per_minute: 10_000_000 },
      expiresAt: null,
    })
    expect(made?.keyId).toMatch(/^key_[\dA-HJKMNP-TV-Z]{26}$/)
    const { rows } = await sql<{ text: string }>`SELECT api_keys::text AS text FROM api_keys`.execute(postgres.db)
    expect(rows[0]?.text).not.toContain(made?.key)
  })

  test('that is given is stored once, in its environment', async () => {
    const key = generateKey('dev')
    expect(await createAdminKey(keys, key)).toMatchObject({ key })
    expect(await createAdminKey(keys, key)).toBeUndefined()
    expect(await keys.findByHash(hashKey(key))).toMatchObject({ environment: 'dev' })
  })
})
