import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/access/api-key'
import type { KeyStore } from '@sluice/access/keys'
import { keyStore } from '@sluice/postgres/keys'
import { unavailable } from '@sluice/runtime/errors'
import { supervise } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { exactClock } from '../../../tests/support/clock.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { bootstrapAdminKey } from './bootstrap-admin-key.ts'

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

/** Starts and stops the component; returns what it logged. */
async function run(
  key: string | undefined,
  store: KeyStore = keys,
  clock = exactClock,
): Promise<Record<string, unknown>[]> {
  const { logger, lines, text } = capturedLogger()
  const supervisor = supervise([bootstrapAdminKey(key, store, { logger, clock }, 1)], logger)
  await supervisor.start()
  await supervisor.stop()
  if (key !== undefined) expect(text()).not.toContain(key)
  return lines()
}

const all = async () => (await keys.list({ limit: 100, offset: 0 }, null)).keys

test('an unknown key is stored as an admin key', async () => {
  const key = generateKey('prod')
  const lines = await run(key)
  expect(await all()).toStrictEqual([
    expect.objectContaining({ scopes: ['admin'], environment: 'prod', hash: hashKey(key), revokedAt: null }),
  ])
  expect(lines).toStrictEqual([
    expect.objectContaining({ level: 'info', msg: 'stored SLUICE_ADMIN_KEY as an admin key' }),
  ])
})

test('a stored key stays as it is at the next start, and concurrent starts store one key', async () => {
  const key = generateKey('dev')
  await Promise.all(Array.from({ length: 5 }, () => run(key)))
  const before = await all()
  expect(before).toHaveLength(1)
  expect(await run(key)).toStrictEqual([])
  expect(await all()).toStrictEqual(before)
})

test('a stored key with fewer rights keeps them', async () => {
  const key = generateKey('prod')
  await run(key)
  await postgres.db
    .updateTable('api_keys')
    .set({ scopes: ['stats:read'] })
    .execute()
  await run(key)
  expect(await all()).toStrictEqual([expect.objectContaining({ scopes: ['stats:read'] })])
})

test('a revoked key stays revoked, an expired one expired, and a warning is logged', async () => {
  const admin = { keyId: 'key_admin', siteIds: null }
  for (const [what, end] of [
    ['a revoked', (keyId: string) => keys.revoke(keyId, null)],
    ['an expired', (keyId: string) => keys.update(keyId, admin, () => ({ expiresAt: Date.now() }))],
  ] as const) {
    await postgres.db.deleteFrom('api_keys').execute()
    const key = generateKey('prod')
    await run(key)
    const [{ keyId } = { keyId: '' }] = await all()
    await end(keyId)
    const before = await all()
    const lines = await run(key)
    expect(lines).toStrictEqual([expect.objectContaining({ level: 'warn', key_id: keyId })])
    expect(lines[0]?.msg).toContain(`is ${what} key, and a restart does not renew it`)
    expect(await all()).toStrictEqual(before)
  }
})

test('a key that has expired by the clock of Postgres is logged', async () => {
  const key = generateKey('prod')
  await run(key)
  const [{ keyId } = { keyId: '' }] = await all()
  await postgres.db
    .updateTable('api_keys')
    .set({ expires_at: new Date(Date.now() + 3_600_000) })
    .execute()
  expect(await run(key)).toStrictEqual([])
  const lines = await run(key, keys, { ...exactClock, now: () => Date.now() + 3_600_000 })
  expect(lines).toStrictEqual([expect.objectContaining({ level: 'warn', key_id: keyId })])
})

describe('without the variable', () => {
  test('a log line explains how to make a key when none is stored', async () => {
    const lines = await run(undefined)
    expect(lines).toStrictEqual([expect.objectContaining({ level: 'warn' })])
    expect(lines[0]?.msg).toContain('npm run admin-key')
    expect(await all()).toStrictEqual([])
  })

  test('nothing is logged when a key is stored', async () => {
    await run(generateKey('prod'))
    expect(await run(undefined)).toStrictEqual([])
  })
})

test('the service starts while Postgres is unavailable, and stores the key once Postgres is back', async () => {
  let isAway = true
  const flaky: KeyStore = {
    ...keys,
    findByHash: (hash) => (isAway ? Promise.reject(unavailable('away')) : keys.findByHash(hash)),
  }
  const { logger } = capturedLogger()
  const key = generateKey('prod')
  const supervisor = supervise([bootstrapAdminKey(key, flaky, { logger, clock: exactClock }, 1)], logger)
  await supervisor.start()
  expect(await all()).toStrictEqual([])
  isAway = false
  await waitUntil(async () => (await all()).length === 1, 'the key is taken over')
  await supervisor.stop()
})

test('a stop ends the attempts to reach an absent Postgres', async () => {
  let attempts = 0
  const away: KeyStore = {
    ...keys,
    findByHash: () => {
      attempts++
      return Promise.reject(unavailable('away'))
    },
  }
  const { logger } = capturedLogger()
  const supervisor = supervise(
    [bootstrapAdminKey(generateKey('prod'), away, { logger, clock: exactClock }, 60_000)],
    logger,
  )
  await supervisor.start()
  await supervisor.stop()
  expect(attempts).toBe(1)
})
