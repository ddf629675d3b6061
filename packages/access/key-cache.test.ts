import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import type { Clock } from '@sluice/runtime/clock'
import { unavailable } from '@sluice/runtime/errors'
import { createMetrics } from '@sluice/runtime/metrics'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type CapturedLogger, capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { type TcpProxy, tcpProxy } from '../../tests/support/tcp-proxy.ts'
import {
  createTestKey,
  forgetChanges,
  newTestKey,
  openTestPostgres,
  type TestPostgres,
} from '../../tests/support/test-postgres.ts'
import { generateKey, hashKey, keyHint } from './api-key.ts'
import { addKeyRefreshAge, type KeyCache, keyCache } from './key-cache.ts'
import type { KeyRecord, KeyStore } from './keys.ts'

type KeySource = Pick<KeyStore, 'findByHashes' | 'changedSince' | 'markUsed'>

const refused = expect.objectContaining({ code: 'unauthenticated', message: 'Invalid API key' })
const unavailableError = expect.objectContaining({ code: 'unavailable', retryable: true })

let postgres: TestPostgres
let store: KeyStore
/** The caches of a test, which stand for the processes of an installation. */
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

const createKey = (expiresAt: number | null = null) => createTestKey(store, { expiresAt })

interface CountingSource extends KeySource {
  calls: { findByHashes: number; changedSince: number; markUsed: number }
}

/** Wraps a source and counts its calls, those of `changedSince` at their end. */
function countCalls(source: KeySource): CountingSource {
  const calls = { findByHashes: 0, changedSince: 0, markUsed: 0 }
  return {
    calls,
    findByHashes: (hashes) => {
      calls.findByHashes++
      return source.findByHashes(hashes)
    },
    changedSince: (since) =>
      source.changedSince(since).finally(() => {
        calls.changedSince++
      }),
    markUsed: (lastUsed) => {
      calls.markUsed++
      return source.markUsed(lastUsed)
    },
  }
}

interface Process {
  cache: KeyCache
  source: CountingSource
  captured: CapturedLogger
  stop: () => Promise<void>
}

/** Starts a cache as a component; resolves after its first poll. */
async function startProcess(
  source: KeySource = store,
  times?: Parameters<typeof keyCache>[2],
  clock: Pick<Clock, 'now'> = exactClock,
): Promise<Process> {
  const captured = capturedLogger()
  const counting = countCalls(source)
  const cache = keyCache(counting, { logger: captured.logger, clock }, times)
  const supervisor = supervise([cache], captured.logger)
  processes.push(supervisor)
  await supervisor.start()
  await waitUntil(() => counting.calls.changedSince > 0, 'the first poll')
  return { cache, source: counting, captured, stop: () => supervisor.stop() }
}

const fastTimes = { pollIntervalMs: 10, markUsedEveryPolls: 1_000 }

/** Resolves when a poll that began after the call has ended. */
async function morePolls({ calls }: CountingSource): Promise<void> {
  const polls = calls.changedSince
  await waitUntil(() => calls.changedSince > polls + 2, 'more polls')
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

test('a key is looked up once, and later requests get its credential without a promise', async () => {
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
    allowedOrigins: null,
    name: 'test',
    expiresAt: null,
  }
  expect(await first).toStrictEqual(credential)
  for (let n = 0; n < 1_000; n++) expect(cache.authenticate(key)).toStrictEqual(credential)
  expect(source.calls.findByHashes).toBe(1)
})

test('concurrent requests look a key up once', async () => {
  const { key, keyId } = await createKey()
  const { cache, source } = await startProcess()
  const answers = await Promise.all(Array.from({ length: 100 }, async () => cache.authenticate(key)))
  expect(new Set(answers.map((answer) => answer.keyId))).toStrictEqual(new Set([keyId]))
  expect(source.calls.findByHashes).toBe(1)
})

test('a new key works at once in every process', async () => {
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
    const elapsedMs = startStopwatch()
    for (const { cache } of [one, other]) {
      await waitUntil(() => isRefused(cache, key), 'the key is refused')
    }
    expect(elapsedMs()).toBeLessThan(2_000)
  })

  test('is refused at once by a process that has not cached it', async () => {
    const { key, keyId } = await createKey()
    await store.revoke(keyId, null)
    const { cache } = await startProcess()
    expect(await isRefused(cache, key)).toBe(true)
  })

  test('is refused soon when it was revoked during its look-up', async () => {
    const { key, keyId } = await createKey()
    const found = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      findByHashes: async (hashes) => {
        const records = await store.findByHashes(hashes)
        found.resolve(undefined)
        await gate.promise
        return records
      },
    }
    const { cache, source } = await startProcess(slow, { pollIntervalMs: 20, markUsedEveryPolls: 1_000 })
    const answer = cache.authenticate(key)
    await found.promise
    await store.revoke(keyId, null)
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 2, 'polls that saw the change')
    gate.resolve(undefined)
    await answer
    await waitUntil(() => isRefused(cache, key), 'the key is refused')
  })

  test('is refused after the first successful poll when it was looked up before that poll', async () => {
    const { key, keyId } = await createKey()
    let isUnavailable = true
    const unavailableSource: KeySource = {
      ...store,
      changedSince: (since) => (isUnavailable ? Promise.reject(unavailable('away')) : store.changedSince(since)),
    }
    const { cache } = await startProcess(unavailableSource, { pollIntervalMs: 20, markUsedEveryPolls: 1_000 })
    await cache.authenticate(key)
    // The key was revoked before the first successful poll, which returns no changes.
    await store.revoke(keyId, null)
    isUnavailable = false
    await waitUntil(() => isRefused(cache, key), 'the key is refused')
  })

  test('is refused by the next poll although its transaction began long ago and took longer than several polls', async () => {
    const { key, keyId } = await createKey()
    const { cache, source } = await startProcess(store, fastTimes)
    await cache.authenticate(key)
    await postgres.db.transaction().execute(async (transaction) => {
      // `changed_at` is the time at which a transaction began. An older build sets only these columns.
      await transaction
        .updateTable('api_keys')
        .set({ revoked_at: new Date(), changed_at: new Date(Date.now() - 3_600_000) })
        .where('key_id', '=', keyId)
        .execute()
      await morePolls(source)
      expect(await isRefused(cache, key)).toBe(false)
    })
    await morePolls(source)
    expect(await isRefused(cache, key)).toBe(true)
  })

  test('is refused within a minute although no poll returns the change', async () => {
    const { key, keyId } = await createKey()
    const { cache, source } = await startProcess(store, fastTimes)
    await cache.authenticate(key)
    await forgetChanges(postgres)
    await morePolls(source)
    await postgres.db.updateTable('api_keys').set({ revoked_at: new Date() }).where('key_id', '=', keyId).execute()
    await morePolls(source)
    expect(await isRefused(cache, key)).toBe(false)
    const now = performance.now()
    jest.spyOn(performance, 'now').mockReturnValue(now + 55_000)
    await morePolls(source)
    expect(await isRefused(cache, key)).toBe(true)
  })

  test('is refused within a minute when its row was deleted', async () => {
    const { key, keyId } = await createKey()
    const { cache, source } = await startProcess(store, fastTimes)
    await cache.authenticate(key)
    await postgres.db.deleteFrom('api_keys').where('key_id', '=', keyId).execute()
    const now = performance.now()
    jest.spyOn(performance, 'now').mockReturnValue(now + 55_000)
    await morePolls(source)
    expect(await isRefused(cache, key)).toBe(true)
  })

  test('is refused while last_used_at is being written', async () => {
    const { key, keyId } = await createKey()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      markUsed: async (lastUsed) => {
        await gate.promise
        return store.markUsed(lastUsed)
      },
    }
    const { cache, source } = await startProcess(slow, { ...fastTimes, markUsedEveryPolls: 1 })
    await cache.authenticate(key)
    await waitUntil(() => source.calls.markUsed > 0, 'the write')
    await store.revoke(keyId, null)
    await waitUntil(() => isRefused(cache, key), 'the key is refused')
    gate.resolve(undefined)
  })
})

test('a key is refused from the moment of its expiry by the clock of Postgres, whether it is cached or not', async () => {
  const expiresAt = Date.now() + 3_600_000
  const { key } = await createKey(expiresAt)
  let now = expiresAt - 1
  const start = () => startProcess(store, undefined, { now: () => now })
  const [withCachedKey, withoutCachedKey] = [await start(), await start()]
  expect(await isRefused(withCachedKey.cache, key)).toBe(false)
  now++
  expect(await isRefused(withCachedKey.cache, key)).toBe(true)
  expect(await isRefused(withoutCachedKey.cache, key)).toBe(true)
})

describe('an unknown key', () => {
  test('is looked up once and then refused without a look-up', async () => {
    const { cache, source } = await startProcess()
    const key = generateKey('prod')
    for (let n = 0; n < 100; n++) expect(await isRefused(cache, key)).toBe(true)
    expect(source.calls.findByHashes).toBe(1)
  })

  test('is not looked up when it is malformed', async () => {
    const { cache, source } = await startProcess()
    const key = generateKey('prod')
    const typo = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
    for (const malformed of ['', 'x', typo, `${key} `, key.slice(0, 42), '\0', 'x'.repeat(100_000)]) {
      expect(await isRefused(cache, malformed)).toBe(true)
    }
    expect(source.calls.findByHashes).toBe(0)
  })

  test('works within 2 s of its creation, although it was refused before', async () => {
    const { cache } = await startProcess()
    const key = generateKey('prod')
    expect(await isRefused(cache, key)).toBe(true)
    await store.create({ ...newTestKey().newKey, hash: hashKey(key), hint: keyHint(key) }, null)
    const elapsedMs = startStopwatch()
    await waitUntil(async () => !(await isRefused(cache, key)), 'the key works')
    expect(elapsedMs()).toBeLessThan(2_000)
  })

  test('works at once when it was created during a look-up that did not find it', async () => {
    const found = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      findByHashes: async (hashes) => {
        const records = await store.findByHashes(hashes)
        found.resolve(undefined)
        await gate.promise
        return records
      },
    }
    const { cache, source } = await startProcess(slow, fastTimes)
    await morePolls(source)
    const { key, newKey } = newTestKey()
    const answer = isRefused(cache, key)
    await found.promise
    await store.create(newKey, null)
    await morePolls(source)
    gate.resolve(undefined)
    expect(await answer).toBe(true)
    expect(await isRefused(cache, key)).toBe(false)
  })

  test('neither displaces a cached key nor stays cached when 10,000 others follow it', async () => {
    const { key } = await createKey()
    const withoutKeys: KeySource = { ...store, findByHashes: () => Promise.resolve([]) }
    const withOneKey: KeySource = {
      ...withoutKeys,
      findByHashes: (hashes) => (hashes.includes(hashKey(key)) ? store.findByHashes(hashes) : Promise.resolve([])),
    }
    const { cache, source } = await startProcess(withOneKey)
    await cache.authenticate(key)
    const first = generateKey('prod')
    await expectRefusal(cache, first)
    for (let n = 0; n < 10_000; n++) await expectRefusal(cache, generateKey('dev'))
    const lookupCount = source.calls.findByHashes
    expect(cache.authenticate(key)).not.toBeInstanceOf(Promise)
    expect(source.calls.findByHashes).toBe(lookupCount)
    // The cache keeps 10,000 unknown keys; this one was refused before them.
    await expectRefusal(cache, first)
    expect(source.calls.findByHashes).toBe(lookupCount + 1)
  })
})

/** Works without a jest matcher, which would take most of the time of 10,000 calls. */
async function expectRefusal(cache: KeyCache, key: string): Promise<void> {
  await Promise.resolve(cache.authenticate(key)).then(
    () => {
      throw new Error('an unknown key was taken')
    },
    () => undefined,
  )
}

describe('last_used_at', () => {
  test('is written at every twentieth poll, however many requests there were', async () => {
    const { key, keyId } = await createKey()
    const pollsAtWrites: number[] = []
    const { cache, source } = await startProcess(
      {
        ...store,
        markUsed: (lastUsed) => {
          pollsAtWrites.push(source.calls.changedSince)
          return store.markUsed(lastUsed)
        },
      },
      { pollIntervalMs: 10 },
    )
    const before = Date.now()
    for (let n = 0; n < 1_000; n++) await cache.authenticate(key)
    await waitUntil(async () => (await store.find(keyId, null))?.lastUsedAt != null, 'it is written')
    const writes = source.calls.markUsed
    expect(writes).toBeLessThanOrEqual(3)
    expect(pollsAtWrites.map((polls) => polls % 20)).toStrictEqual(pollsAtWrites.map(() => 0))
    const usedAt = (await store.find(keyId, null))?.lastUsedAt
    expect(usedAt).toBeGreaterThanOrEqual(before)
    expect(usedAt).toBeLessThanOrEqual(Date.now())
    // The key has not been used since, so there is nothing to write.
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 20, 'more polls')
    expect(source.calls.markUsed).toBe(writes)
  })

  test('is written once for all processes that use the key', async () => {
    const { key, keyId } = await createKey()
    const times = { ...fastTimes, markUsedEveryPolls: 1 }
    const both = [await startProcess(store, times), await startProcess(store, times)]
    const version = async () => (await store.find(keyId, null))?.lastUsedAt
    const use = () => Promise.all(both.map(async ({ cache }) => cache.authenticate(key)))
    await use()
    await waitUntil(async () => (await version()) != null, 'it is written')
    const written = await version()
    for (let round = 0; round < 5; round++) {
      await use()
      for (const { source } of both) await morePolls(source)
    }
    expect(await version()).toBe(written)
  })

  test('is written when the service stops', async () => {
    const { key, keyId } = await createKey()
    const { cache, stop } = await startProcess()
    await cache.authenticate(key)
    await stop()
    expect((await store.find(keyId, null))?.lastUsedAt).toStrictEqual(expect.any(Number))
  })

  test('is not lost while Postgres is unavailable', async () => {
    const { key, keyId } = await createKey()
    let isUnavailable = true
    const unavailableSource: KeySource = {
      ...store,
      markUsed: (lastUsed) => (isUnavailable ? Promise.reject(unavailable('away')) : store.markUsed(lastUsed)),
    }
    const { cache, source } = await startProcess(unavailableSource, { pollIntervalMs: 10, markUsedEveryPolls: 1 })
    await cache.authenticate(key)
    await waitUntil(() => source.calls.markUsed > 2, 'writes that fail')
    isUnavailable = false
    await waitUntil(async () => (await store.find(keyId, null))?.lastUsedAt != null, 'it is written')
  })

  test('does not change when a request is refused', async () => {
    const { key, keyId } = await createKey()
    await store.revoke(keyId, null)
    const { cache, stop } = await startProcess()
    expect(await isRefused(cache, key)).toBe(true)
    await stop()
    expect((await store.find(keyId, null))?.lastUsedAt).toBeNull()
  })
})

describe('while Postgres hangs', () => {
  test('a key that is not cached gets 503 within 2.5 s, and works once Postgres has replied', async () => {
    const { key, keyId } = await createKey()
    const gate = Promise.withResolvers<undefined>()
    const slow: KeySource = {
      ...store,
      findByHashes: async (hashes) => {
        await gate.promise
        return store.findByHashes(hashes)
      },
    }
    const { cache, source } = await startProcess(slow)
    const elapsedMs = startStopwatch()
    await expect(cache.authenticate(key)).rejects.toEqual(unavailableError)
    expect(elapsedMs()).toBeLessThan(2_500)
    gate.resolve(undefined)
    expect(await cache.authenticate(key)).toMatchObject({ keyId })
    expect(source.calls.findByHashes).toBe(1)
  })

  test('a statement without an answer does not hold up the look-ups of other keys', async () => {
    const [{ key: first }, { key: second, keyId }] = [await createKey(), await createKey()]
    const gate = Promise.withResolvers<KeyRecord[]>()
    const { cache, source } = await startProcess({
      ...store,
      findByHashes: (hashes) => (hashes.includes(hashKey(first)) ? gate.promise : store.findByHashes(hashes)),
    })
    const refusal = expect(cache.authenticate(first)).rejects.toEqual(unavailableError)
    await waitUntil(() => source.calls.findByHashes > 0, 'the statement of the first key')
    expect(await cache.authenticate(second)).toMatchObject({ keyId })
    await refusal
    gate.resolve([])
  })

  test('two statements look up keys at a time, at most', async () => {
    const gate = Promise.withResolvers<KeyRecord[]>()
    const { cache, source } = await startProcess({ ...store, findByHashes: () => gate.promise })
    const refusals: Promise<void>[] = []
    const lookUpAnother = () =>
      refusals.push(expect(cache.authenticate(generateKey('prod'))).rejects.toEqual(unavailableError))
    for (const begun of [1, 2]) {
      lookUpAnother()
      await waitUntil(() => source.calls.findByHashes === begun, 'the next statement')
    }
    // Its look-up is given up after a second, in which further statements would have begun.
    lookUpAnother()
    await Promise.all(refusals)
    expect(source.calls.findByHashes).toBe(2)
    gate.resolve([])
  })

  test('a thousand look-ups wait for one statement, and a further one gets 503 at once', async () => {
    const gate = Promise.withResolvers<KeyRecord[]>()
    const { cache, source } = await startProcess({ ...store, findByHashes: () => gate.promise })
    const waiting = Array.from({ length: 1_000 }, async () => cache.authenticate(generateKey('prod')))
    const refusals = Promise.allSettled(waiting)
    expect(() => cache.authenticate(generateKey('prod'))).toThrow(unavailableError)
    await waitUntil(() => source.calls.findByHashes > 0, 'the first statement')
    expect(source.calls.findByHashes).toBe(1)
    gate.resolve([])
    expect((await refusals).every(({ status }) => status === 'rejected')).toBe(true)
    await expect(cache.authenticate(generateKey('prod'))).rejects.toEqual(refused)
  })
})

describe('while Postgres is unavailable', () => {
  let proxy: TcpProxy

  beforeAll(async () => {
    proxy = await tcpProxy(postgres.url)
  })

  afterAll(async () => {
    await proxy.close()
  })

  test('cached keys work and other keys get 503, and a revocation takes effect when Postgres is back', async () => {
    const proxiedPostgres = openPostgres(proxy.url)
    const { cache, captured, source } = await startProcess(keyStore(proxiedPostgres), {
      pollIntervalMs: 50,
      markUsedEveryPolls: 1_000,
    })
    const cached = await createKey()
    const other = await createKey()
    await cache.authenticate(cached.key)

    await proxy.cut()
    await waitUntil(() => captured.text().includes('could not be polled'), 'the poll notices')
    expect(cache.authenticate(cached.key)).toMatchObject({ keyId: cached.keyId })
    for (const key of [other.key, generateKey('prod')])
      await expect(cache.authenticate(key)).rejects.toEqual(unavailableError)
    // A malformed key is refused without a look-up in Postgres.
    expect(await isRefused(cache, 'x')).toBe(true)
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 3, 'more polls')
    expect(captured.lines()).toHaveLength(1)

    // The first poll that succeeds finds the revocation.
    await store.revoke(cached.keyId, null)
    await proxy.mend()
    await waitUntil(() => isRefused(cache, cached.key), 'the revocation arrives')
    expect(await cache.authenticate(other.key)).toMatchObject({ keyId: other.keyId })
    await proxiedPostgres.close()
  })

  test('cached keys get 503 after an hour without a successful poll', async () => {
    const { key } = await createKey()
    let isUnavailable = false
    const unavailableSource: KeySource = {
      ...store,
      changedSince: (since) => (isUnavailable ? Promise.reject(unavailable('away')) : store.changedSince(since)),
    }
    const { cache, source } = await startProcess(unavailableSource, { pollIntervalMs: 10, markUsedEveryPolls: 1_000 })
    const metrics = createMetrics()
    addKeyRefreshAge(metrics, cache)
    const age = async () => (await metrics.getSingleMetric('sluice_key_refresh_age_seconds')?.get())?.values[0]?.value
    await cache.authenticate(key)
    expect(await age()).toBeLessThan(3_500)
    isUnavailable = true
    const polls = source.calls.changedSince
    await waitUntil(() => source.calls.changedSince > polls + 1, 'polls that fail')
    const [now, wallNow] = [performance.now(), Date.now()]
    const [clock, wallClock] = [jest.spyOn(performance, 'now'), jest.spyOn(Date, 'now')]
    clock.mockReturnValue(now + 3_590_000)
    // Whatever somebody sets the wall clock to.
    for (const setBy of [7_200_000, -7_200_000]) {
      wallClock.mockReturnValue(wallNow + setBy)
      expect(await cache.authenticate(key)).toHaveProperty('keyId')
    }
    clock.mockReturnValue(now + 3_601_000)
    expect(await age()).toBeGreaterThan(3_600)
    expect(() => cache.authenticate(key)).toThrow(unavailableError)
    jest.restoreAllMocks()
    isUnavailable = false
    await waitUntil(() => Promise.resolve(cache.authenticate(key)).then(Boolean, () => false), 'a poll gets through')
  })
})

test('a failure other than an unavailable Postgres reaches the supervisor', async () => {
  const broken: KeySource = { ...store, changedSince: () => Promise.reject(new TypeError('canary')) }
  const { captured } = await startProcess(broken)
  await waitUntil(() => captured.text().includes('component failed'), 'it is logged')
})
