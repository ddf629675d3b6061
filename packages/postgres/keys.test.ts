import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import { sql } from 'kysely'
import { createAdminKey } from './admin-key.ts'
import { type KeyRecord, keyStore, type KeyStore, type NewKey } from './keys.ts'
import { openTestPostgres, type TestPostgres } from './testing.ts'

let postgres: TestPostgres
let keys: KeyStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  keys = keyStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('api_keys').execute()
})

let number = 0

function newKey(parts: Partial<NewKey> = {}): NewKey {
  const key = generateKey('prod')
  return {
    keyId: `key_${number++}`,
    name: 'shop',
    environment: 'prod',
    scopes: ['events:write', 'stats:read'],
    hash: hashKey(key),
    hint: keyHint(key),
    expiresAt: null,
    bootstrap: false,
    ...parts,
  }
}

async function create(parts: Partial<NewKey> = {}): Promise<KeyRecord> {
  const record = await keys.create(newKey(parts))
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
    const key = newKey({ environment: 'dev', scopes: ['admin'], expiresAt: new Date('2030-01-01T00:00:00.123Z') })
    const { bootstrap: _bootstrap, ...rest } = key
    const record = await keys.create(key)
    expect(record).toStrictEqual({ ...rest, createdAt: expect.any(Date), lastUsedAt: null, revokedAt: null })
    expect(record?.createdAt.getTime()).toBeGreaterThanOrEqual(before.getTime())
    expect(await keys.find(key.keyId)).toStrictEqual(record)
    expect(await keys.findByHash(key.hash)).toStrictEqual(record)
  })

  test('leaves a key of the same hash as it is', async () => {
    const first = await create({ name: 'first' })
    expect(await keys.create(newKey({ hash: first.hash, name: 'second', scopes: ['admin'] }))).toBeUndefined()
    expect(await keys.findByHash(first.hash)).toStrictEqual(first)
  })

  test('of one key at many places at once stores it once', async () => {
    const key = newKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => keys.create({ ...key, keyId: `${key.keyId}_${n}` })),
    )
    expect(answers.filter((record) => record !== undefined)).toHaveLength(1)
  })

  test('takes the last moment that an expiry may name', async () => {
    const expiresAt = new Date(8_640_000_000_000_000)
    const { keyId } = await create({ expiresAt })
    expect((await keys.find(keyId))?.expiresAt).toStrictEqual(expiresAt)
  })
})

test('what is not there is undefined', async () => {
  expect(await keys.find('key_x')).toBeUndefined()
  expect(await keys.findByHash('x')).toBeUndefined()
  expect(await keys.revoke('key_x')).toBeUndefined()
})

test('any is true once any key was ever made, a revoked one too', async () => {
  expect(await keys.any()).toBe(false)
  const { keyId } = await create()
  await keys.revoke(keyId)
  expect(await keys.any()).toBe(true)
})

test('list is newest first, in pages, with the number of all', async () => {
  const made: string[] = []
  for (let n = 0; n < 5; n++) made.unshift((await create()).keyId)
  const idsOf = async (limit: number, offset: number) => {
    const page = await keys.list({ limit, offset })
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
    const first = await keys.revoke(keyId)
    expect(first?.revokedAt).toBeInstanceOf(Date)
    const second = await keys.revoke(keyId)
    expect(second?.revokedAt).toStrictEqual(first?.revokedAt)
  })

  test('touches no other key', async () => {
    const [one, other] = [await create(), await create()]
    await keys.revoke(one.keyId)
    expect((await keys.find(other.keyId))?.revokedAt).toBeNull()
  })
})

test('revokeBootstrapKeysExcept revokes those that a start made, but for one, and counts the new ones', async () => {
  const [old, older, kept] = [
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
    await create({ bootstrap: true }),
  ]
  const other = await create({ scopes: ['admin'] })
  await keys.revoke(older.keyId)
  const revokedBefore = (await keys.find(older.keyId))?.revokedAt
  expect(await keys.revokeBootstrapKeysExcept(kept.keyId)).toBe(1)
  expect((await keys.find(old.keyId))?.revokedAt).toBeInstanceOf(Date)
  expect((await keys.find(older.keyId))?.revokedAt).toStrictEqual(revokedBefore)
  expect((await keys.find(kept.keyId))?.revokedAt).toBeNull()
  expect((await keys.find(other.keyId))?.revokedAt).toBeNull()
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
    await keys.revoke(key.keyId)
    const { keys: changed } = await keys.changedSince(asOf)
    expect(changed).toStrictEqual([await keys.find(key.keyId)])
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
    await sql`UPDATE api_keys SET changed_at = now() - interval '1 minute'`.execute(postgres.db)
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
      expect((await keys.find(keyId))?.lastUsedAt).toStrictEqual(expected)
    }
  })

  test('takes many keys, unknown ones, and none', async () => {
    const [one, other] = [await create(), await create()]
    const at = new Date()
    await keys.markUsed(new Map([one.keyId, 'key_unknown', other.keyId].map((keyId) => [keyId, at])))
    expect((await keys.find(one.keyId))?.lastUsedAt).toStrictEqual(at)
    expect((await keys.find(other.keyId))?.lastUsedAt).toStrictEqual(at)
    await keys.markUsed(new Map())
  })

  test('is no change of rights: nobody’s cache hears of it', async () => {
    const { keyId } = await create()
    await sql`UPDATE api_keys SET changed_at = now() - interval '1 minute'`.execute(postgres.db)
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
    const record = await keys.find(made?.keyId ?? '')
    expect(record).toMatchObject({
      name: 'admin',
      environment: 'prod',
      scopes: ['admin'],
      hash: hashKey(made?.key ?? ''),
      hint: keyHint(made?.key ?? ''),
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
