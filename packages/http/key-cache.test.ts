import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import { unavailable } from '@sluice/contracts/errors'
import { waitUntil } from '@sluice/engines/processes'
import { type KeyStore, keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import {
  type Cuttable,
  cuttable,
  openTestPostgres,
  type TestPostgres,
  createTestKey,
  newTestKey,
} from '@sluice/postgres/testing'
import { type Supervisor, supervise } from '@sluice/runtime/supervisor'
import { type CapturedLogger, capturedLogger } from '@sluice/runtime/testing'
import { type KeyCache, keyCache, type KeySource } from './key-cache.ts'

const refused = expect.objectContaining({ status: 401, message: 'Invalid API key' })
const away = expect.objectContaining({ status: 503, retryable: true })

let postgres: TestPostgres
let store: KeyStore
/** The caches of a test, as the processes of an installation. */
const processes: Supervisor[] = []

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = keyStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.stop()))
  jest.restoreAllMocks()
})

const createKey = (expiresAt: Date | null = null) => createTestKey(store, { expiresAt })

interface Counted extends KeySource {
  calls: { findByHash: number; changedSince: number; markUsed: number }
}

/** The source, and how often it was asked. */
function counted(source: KeySource): Counted {
  const calls = { findByHash: 0, changedSince: 0, markUsed: 0 }
  return {
    calls,
    findByHash: (hash) => {
      calls.findByHash++
      return source.findByHash(hash)
    },
    changedSince: (since) => {
      calls.changedSince++
      return source.changedSince(since)
    },
    markUsed: (lastUsed) => {
      calls.markUsed++
      return source.markUsed(lastUsed)
    },
  }
}

interface Process {
  cache: KeyCache
  source: Counted
  captured: CapturedLogger
  stop: () => Promise<void>
}

/** A cache that runs, after its first poll. */
async function startProcess(source: KeySource = store, times?: Parameters<typeof keyCache>[2]): Promise<Process> {
  const captured = capturedLogger()
  const watched = counted(source)
  const cache = keyCache(watched, captured.logger, times)
  const supervisor = supervise([cache], captured.logger)
  processes.push(supervisor)
  await supervisor.start()
  await waitUntil(() => watched.calls.changedSince > 0, 'the first poll', 5_000)
  return { cache, source: watched, captured, stop: () => supervisor.stop() }
}

async function isRefused(cache: KeyCache, key: string): Promise<boolean> {
  try {
    await cache.authenticate(key)
    return false
  } catch (error) {
    expect(error).toEqual(refused)
    return true
  }
}

test('a key is looked up once, then answered at once, without its scopes changing hands', async () => {
  const { key, keyId } = await createKey()
  const { cache, source } = await startProcess()
  const first = cache.authenticate(key)
  expect(first).toBeInstanceOf(Promise)
  const credential = {
    keyId,
    environment: 'prod',
    scopes: ['events:write'],
    siteIds: null,
    rateLimits: null,
    expiresAt: null,
  }
  expect(await first).toStrictEqual(credential)
  for (let n = 0; n < 1_000; n++) expect(cache.authenticate(key)).toStrictEqual(credential)
  expect(source.calls.findByHash).toBe(1)
})

test('requests that come together look a key up once', async () => {
  const { key, keyId } = await createKey()
  const { cache, source } = await startProcess()
  const answers = await Promise.all(Array.from({ length: 100 }, async () => cache.authenticate(key)))
  expect(new Set(answers.map((answer) => answer.keyId))).toStrictEqual(new Set([keyId]))
  expect(source.calls.findByHash).toBe(1)
})

test('a key that was made a moment ago works at once, everywhere', async () => {
  const [one, other] = [await startProcess(), await startProcess()]
  const { key, keyId } = await createKey()
  expect(await one.cache.authenticate(key)).toMatchObject({ keyId })
  expect(await other.cache.authenticate(key)).toMatchObject({ keyId })
})

describe('a revoked key', () => {
  test('is refused within 2 s by every process that has it cached', async () => {
    const [one, other] = [await startProcess(), await startProcess()]
    const { key, keyId } = await createKey()
    for (const { cache } of [one, other]) await cache.authenticate(key)
    await store.revoke(keyId, null)
    const revokedAt = performance.now()
    for (const { cache } of [one, other]) {
      await waitUntil(() => isRefused(cache, key), 'the key is refused', 5_000)
    }
    expect(performance.now() - revokedAt).toBeLessThan(2_000)
  })

  test('is refused at once by a process that has not', async () => {
    const { key, keyId } = await createKey()
    await store.revoke(keyId, null)
    const { cache } = await startProcess()
    expect(await isRefused(cache, key)).toBe(true)
  })

  test('that was looked up while it was revoked is refused soon, too', async () => {
    const { key, keyId } = await createKey()
    const found = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      findByHash: async (hash) => {
        const record = await store.findByHash(hash)
        found.resolve(undefined)
        await gate.promise
        return record
      },
    }
    const { cache, source } = await startProcess(slow, { pollIntervalMs: 20, markUsedEveryPolls: 1_000 })
    const answer = cache.authenticate(key)
    await found.promise
    await store.revoke(keyId, null)
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 2, 'polls that saw the change', 5_000)
    gate.resolve(undefined)
    await answer
    await waitUntil(() => isRefused(cache, key), 'the key is refused', 2_000)
  })

  test('that was looked up before the first poll is refused by it', async () => {
    const { key } = await createKey()
    let isAway = true
    const flaky: KeySource = {
      ...store,
      changedSince: (since) => (isAway ? Promise.reject(unavailable('away')) : store.changedSince(since)),
    }
    const { cache } = await startProcess(flaky, { pollIntervalMs: 20, markUsedEveryPolls: 1_000 })
    await cache.authenticate(key)
    // Revoked long before the first poll that works: its overlap does not reach so far.
    await postgres.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date(Date.now() - 3_600_000), changed_at: new Date(Date.now() - 3_600_000) })
      .where('hash', '=', hashKey(key))
      .execute()
    isAway = false
    await waitUntil(() => isRefused(cache, key), 'the key is refused', 2_000)
  })
})

test('a key is refused from the moment that it expires, cached or not', async () => {
  const expiresAt = new Date(Date.now() + 3_600_000)
  const { key } = await createKey(expiresAt)
  const [warm, cold] = [await startProcess(), await startProcess()]
  await warm.cache.authenticate(key)
  const clock = jest.spyOn(Date, 'now')
  clock.mockReturnValue(expiresAt.getTime() - 1)
  expect(await isRefused(warm.cache, key)).toBe(false)
  clock.mockReturnValue(expiresAt.getTime())
  expect(await isRefused(warm.cache, key)).toBe(true)
  expect(await isRefused(cold.cache, key)).toBe(true)
})

describe('an unknown key', () => {
  test('is looked up once, and refused without asking then', async () => {
    const { cache, source } = await startProcess()
    const key = generateKey('prod')
    for (let n = 0; n < 100; n++) expect(await isRefused(cache, key)).toBe(true)
    expect(source.calls.findByHash).toBe(1)
  })

  test('that is malformed is not looked up at all', async () => {
    const { cache, source } = await startProcess()
    const key = generateKey('prod')
    const typo = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
    for (const malformed of ['', 'x', typo, `${key} `, key.slice(0, 42), '\0', 'x'.repeat(100_000)]) {
      expect(await isRefused(cache, malformed)).toBe(true)
    }
    expect(source.calls.findByHash).toBe(0)
  })

  test('works within 2 s once it is made, although it was refused before', async () => {
    const { cache } = await startProcess()
    const key = generateKey('prod')
    expect(await isRefused(cache, key)).toBe(true)
    await store.create({ ...newTestKey().newKey, hash: hashKey(key), hint: keyHint(key) }, null)
    const made = performance.now()
    await waitUntil(async () => !(await isRefused(cache, key)), 'the key works', 5_000)
    expect(performance.now() - made).toBeLessThan(2_000)
  })

  test('after the other does not push keys out that are in use, nor fill the memory', async () => {
    const { key } = await createKey()
    const stranger: KeySource = { ...store, findByHash: () => Promise.resolve(undefined) }
    const known: KeySource = {
      ...stranger,
      findByHash: (hash) => (hash === hashKey(key) ? store.findByHash(hash) : Promise.resolve(undefined)),
    }
    const { cache, source } = await startProcess(known)
    await cache.authenticate(key)
    const first = generateKey('prod')
    await isRefusedQuickly(cache, first)
    for (let n = 0; n < 10_000; n++) await isRefusedQuickly(cache, generateKey('dev'))
    const asked = source.calls.findByHash
    expect(cache.authenticate(key)).not.toBeInstanceOf(Promise)
    expect(source.calls.findByHash).toBe(asked)
    // Ten thousand are remembered, and this one was before them.
    await isRefusedQuickly(cache, first)
    expect(source.calls.findByHash).toBe(asked + 1)
  })
})

/** Without the matcher, which would be most of the time of ten thousand calls. */
async function isRefusedQuickly(cache: KeyCache, key: string): Promise<void> {
  await Promise.resolve(cache.authenticate(key)).then(
    () => {
      throw new Error('an unknown key was taken')
    },
    () => undefined,
  )
}

describe('last_used_at', () => {
  test('is written every so many polls, however many requests there were', async () => {
    const { key, keyId } = await createKey()
    const { cache, source } = await startProcess(store, { pollIntervalMs: 10, markUsedEveryPolls: 3 })
    const before = Date.now()
    for (let n = 0; n < 1_000; n++) await cache.authenticate(key)
    await waitUntil(async () => (await store.find(keyId, null))?.lastUsedAt != null, 'it is written', 5_000)
    const writes = source.calls.markUsed
    expect(writes).toBeLessThanOrEqual(3)
    const usedAt = (await store.find(keyId, null))?.lastUsedAt?.getTime() ?? 0
    expect(usedAt).toBeGreaterThanOrEqual(before)
    expect(usedAt).toBeLessThanOrEqual(Date.now())
    // Unused since: nothing more to write.
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 10, 'more polls', 5_000)
    expect(source.calls.markUsed).toBe(writes)
  })

  test('is written at the stop', async () => {
    const { key, keyId } = await createKey()
    const { cache, stop } = await startProcess()
    await cache.authenticate(key)
    await stop()
    expect((await store.find(keyId, null))?.lastUsedAt).toBeInstanceOf(Date)
  })

  test('is not lost while Postgres is away', async () => {
    const { key, keyId } = await createKey()
    let isAway = true
    const flaky: KeySource = {
      ...store,
      markUsed: (lastUsed) => (isAway ? Promise.reject(unavailable('away')) : store.markUsed(lastUsed)),
    }
    const { cache, source } = await startProcess(flaky, { pollIntervalMs: 10, markUsedEveryPolls: 1 })
    await cache.authenticate(key)
    await waitUntil(() => source.calls.markUsed > 2, 'writes that fail', 5_000)
    isAway = false
    await waitUntil(async () => (await store.find(keyId, null))?.lastUsedAt != null, 'it is written', 5_000)
  })

  test('is not touched by refusals', async () => {
    const { key, keyId } = await createKey()
    await store.revoke(keyId, null)
    const { cache, stop } = await startProcess()
    expect(await isRefused(cache, key)).toBe(true)
    await stop()
    expect((await store.find(keyId, null))?.lastUsedAt).toBeNull()
  })
})

describe('with Postgres hanging', () => {
  test('a key that is not cached is 503 within a second or so, and works when Postgres answers late', async () => {
    const { key, keyId } = await createKey()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      findByHash: async (hash) => {
        await gate.promise
        return store.findByHash(hash)
      },
    }
    const { cache, source } = await startProcess(slow)
    const started = performance.now()
    await expect(cache.authenticate(key)).rejects.toEqual(away)
    expect(performance.now() - started).toBeLessThan(2_500)
    gate.resolve(undefined)
    expect(await cache.authenticate(key)).toMatchObject({ keyId })
    expect(source.calls.findByHash).toBe(1)
  })

  test('a thousand look-ups wait, and one more is 503 at once', async () => {
    const gate = Promise.withResolvers<undefined>()
    const { cache, source } = await startProcess({ ...store, findByHash: () => gate.promise })
    const waiting = Array.from({ length: 1_000 }, async () => cache.authenticate(generateKey('prod')))
    const refusals = Promise.allSettled(waiting)
    expect(() => cache.authenticate(generateKey('prod'))).toThrow(away)
    expect(source.calls.findByHash).toBe(1_000)
    gate.resolve(undefined)
    expect((await refusals).every(({ status }) => status === 'rejected')).toBe(true)
    await expect(cache.authenticate(generateKey('prod'))).rejects.toEqual(refused)
  })
})

describe('with Postgres away', () => {
  let way: Cuttable

  beforeAll(async () => {
    way = await cuttable(postgres.url)
  })

  afterAll(async () => {
    await way.close()
  })

  test('cached keys go on, unknown ones are 503, and all is well when it is back', async () => {
    const behind = openPostgres(way.url)
    const { cache, captured, source } = await startProcess(keyStore(behind), {
      pollIntervalMs: 50,
      markUsedEveryPolls: 1_000,
    })
    const cached = await createKey()
    const other = await createKey()
    await cache.authenticate(cached.key)

    await way.cut()
    await waitUntil(() => captured.text().includes('can not be checked'), 'the poll notices', 10_000)
    expect(cache.authenticate(cached.key)).toMatchObject({ keyId: cached.keyId })
    for (const key of [other.key, generateKey('prod')]) await expect(cache.authenticate(key)).rejects.toEqual(away)
    // Malformed ones are none of Postgres's business.
    expect(await isRefused(cache, 'x')).toBe(true)
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 3, 'more polls', 20_000)
    expect(captured.lines()).toHaveLength(1)

    // Revoked meanwhile: noticed by the first poll that gets through.
    await store.revoke(cached.keyId, null)
    await way.mend()
    await waitUntil(() => isRefused(cache, cached.key), 'the revocation arrives', 10_000)
    expect(await cache.authenticate(other.key)).toMatchObject({ keyId: other.keyId })
    await behind.close()
  })

  test('cached keys are 503 after an hour without a check', async () => {
    const { key } = await createKey()
    let isAway = false
    const flaky: KeySource = {
      ...store,
      changedSince: (since) => (isAway ? Promise.reject(unavailable('away')) : store.changedSince(since)),
    }
    const { cache, source } = await startProcess(flaky, { pollIntervalMs: 10, markUsedEveryPolls: 1_000 })
    await cache.authenticate(key)
    isAway = true
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 1, 'polls that fail', 5_000)
    const now = Date.now()
    const clock = jest.spyOn(Date, 'now')
    clock.mockReturnValue(now + 3_590_000)
    expect(await cache.authenticate(key)).toHaveProperty('keyId')
    clock.mockReturnValue(now + 3_601_000)
    expect(() => cache.authenticate(key)).toThrow(away)
    clock.mockRestore()
    isAway = false
    await waitUntil(
      () => Promise.resolve(cache.authenticate(key)).then(Boolean, () => false),
      'a poll gets through',
      5_000,
    )
  })
})

test('a failure that is not Postgres being away reaches the supervisor', async () => {
  const broken: KeySource = { ...store, changedSince: () => Promise.reject(new TypeError('canary')) }
  const { captured } = await startProcess(broken)
  await waitUntil(() => captured.text().includes('component failed'), 'it is logged', 5_000)
})
