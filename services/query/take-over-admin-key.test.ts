import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/contracts/api-key'
import { unavailable } from '@sluice/contracts/errors'
import { waitUntil } from '@sluice/engines/processes'
import { type KeyStore, keyStore } from '@sluice/postgres/keys'
import { openTestPostgres, type TestPostgres } from '@sluice/postgres/testing'
import { FatalError, supervise } from '@sluice/runtime/supervisor'
import { capturedLogger } from '@sluice/runtime/testing'
import { takeOverAdminKey } from './take-over-admin-key.ts'

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
async function run(key: string | undefined, store: KeyStore = keys): Promise<Record<string, unknown>[]> {
  const { logger, lines, text } = capturedLogger()
  const supervisor = supervise([takeOverAdminKey(key, store, logger, 1)], logger)
  await supervisor.start()
  await supervisor.stop()
  if (key !== undefined) expect(text()).not.toContain(key)
  return lines()
}

const all = async () => (await keys.list({ limit: 100, offset: 0 }, null)).keys

test('a key that nobody knows becomes an admin key', async () => {
  const key = generateKey('prod')
  const lines = await run(key)
  expect(await all()).toStrictEqual([
    expect.objectContaining({ scopes: ['admin'], environment: 'prod', hash: hashKey(key), revokedAt: null }),
  ])
  expect(lines).toStrictEqual([expect.objectContaining({ level: 'info', msg: 'SLUICE_ADMIN_KEY was taken over' })])
})

test('at the next start it is known and stays as it is; several at once make one key', async () => {
  const key = generateKey('dev')
  await Promise.all(Array.from({ length: 5 }, () => run(key)))
  const before = await all()
  expect(before).toHaveLength(1)
  expect(await run(key)).toStrictEqual([])
  expect(await all()).toStrictEqual(before)
})

test('a key of lesser rights stays what it is', async () => {
  const key = generateKey('prod')
  await run(key)
  await postgres.db
    .updateTable('api_keys')
    .set({ scopes: ['stats:read'] })
    .execute()
  await run(key)
  expect(await all()).toStrictEqual([expect.objectContaining({ scopes: ['stats:read'] })])
})

test('a revoked key stays revoked, an expired one expired, and the log says so', async () => {
  const admin = { keyId: 'key_admin', siteIds: null }
  for (const [what, end] of [
    ['a revoked', (keyId: string) => keys.revoke(keyId, null)],
    ['an expired', (keyId: string) => keys.update(keyId, admin, () => ({ expiresAt: new Date() }))],
  ] as const) {
    await postgres.db.deleteFrom('api_keys').execute()
    const key = generateKey('prod')
    await run(key)
    const [{ keyId } = { keyId: '' }] = await all()
    await end(keyId)
    const before = await all()
    const lines = await run(key)
    expect(lines).toStrictEqual([expect.objectContaining({ level: 'warn', key_id: keyId })])
    expect(lines[0]?.msg).toContain(`is ${what} key and stays that`)
    expect(await all()).toStrictEqual(before)
  }
})

describe('without the variable', () => {
  test('and without any key it says how to get one', async () => {
    const lines = await run(undefined)
    expect(lines).toStrictEqual([expect.objectContaining({ level: 'warn' })])
    expect(lines[0]?.msg).toContain('npm run admin-key')
    expect(await all()).toStrictEqual([])
  })

  test('and with one it says nothing', async () => {
    await run(generateKey('prod'))
    expect(await run(undefined)).toStrictEqual([])
  })
})

test.each([
  ['half a key', () => generateKey('prod').slice(0, 30)],
  ['a mistyped key', () => `svc_prod_${'a'.repeat(34)}`],
  ['a key with a line’s end', () => `${generateKey('prod')}\n`],
  ['anything else', () => 'letmein'],
])('%s fails the start without being printed', async (_what, make) => {
  const key = make()
  const failed = run(key)
  await expect(failed).rejects.toThrow(FatalError)
  await expect(failed).rejects.toThrow('SLUICE_ADMIN_KEY is not a key')
  await expect(failed).rejects.not.toThrow(key)
  expect(await all()).toStrictEqual([])
})

test('with Postgres away the service starts, and the key is taken over when it is back', async () => {
  let isAway = true
  const flaky: KeyStore = {
    ...keys,
    findByHash: (hash) => (isAway ? Promise.reject(unavailable('away')) : keys.findByHash(hash)),
  }
  const { logger } = capturedLogger()
  const key = generateKey('prod')
  const supervisor = supervise([takeOverAdminKey(key, flaky, logger, 1)], logger)
  await supervisor.start()
  expect(await all()).toStrictEqual([])
  isAway = false
  await waitUntil(async () => (await all()).length === 1, 'the key is taken over', 5_000)
  await supervisor.stop()
})

test('with Postgres away a stop asks it no more', async () => {
  let asked = 0
  const away: KeyStore = {
    ...keys,
    findByHash: () => {
      asked++
      return Promise.reject(unavailable('away'))
    },
  }
  const { logger } = capturedLogger()
  const supervisor = supervise([takeOverAdminKey(generateKey('prod'), away, logger, 60_000)], logger)
  await supervisor.start()
  await supervisor.stop()
  expect(asked).toBe(1)
})
