import { hourMs } from '@sluice/contracts/time-units'
import type { Clock } from '@sluice/runtime/clock'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { withDeadline } from '@sluice/runtime/deadline'
import { invalidApiKey, isRetryable, unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'
import { hashKey, keyEnvironment } from './api-key.ts'
import { coalesceByKey } from './coalesce-by-key.ts'
import type { Credential } from './credential.ts'
import { type KeyRecord, type KeyStore, unusableReason } from './keys.ts'
import { polledCache } from './polled-cache.ts'

/** The credentials of keys, from the store or from memory. As a component it polls the store for changes. */
export interface KeyCache extends Component {
  /**
   * Returns the credential of a key. For a cached key it returns without a promise, so that the hot path awaits
   * nothing. Throws (or rejects with) AppError `unauthenticated` for an unusable key, `unavailable` when Postgres is
   * needed and unavailable.
   */
  authenticate(key: string): Credential | Promise<Credential>
  /** Does the same for the SHA-256 of a key, which is what a session holds. */
  authenticateHash(hash: string): Credential | Promise<Credential>
  /** Time in ms since when changes of keys are not known: since the creation of the cache before the first poll. */
  refreshAgeMs(): number
}

/** Intervals of the polls; tests shorten them. */
export interface KeyCacheTimes {
  /** Every process obeys a revocation within 2 s: one poll a second, and the duration of the poll. */
  pollIntervalMs: number
  /** `last_used_at` is true within a minute. */
  markUsedEveryPolls: number
  /**
   * A request waits at most this long for a Postgres that hangs. The look-up itself continues until its statement times
   * out.
   */
  lookupTimeoutMs: number
}

const defaultTimes: KeyCacheTimes = { pollIntervalMs: 1_000, markUsedEveryPolls: 20, lookupTimeoutMs: 1_000 }
/** Each cached key is read again within a minute, even if no poll reports a change. */
const recheckAfterMs = 30_000
/**
 * Cached keys work for this long without a successful poll, so that events are accepted while Postgres is unavailable.
 * If only one process loses its connection to Postgres, it accepts revoked keys for this long. The clock by
 * which it is measured stands while the machine sleeps (docs/decisions/017-freshness.md).
 */
const serveUncheckedMs = hourMs
const unknownKeyTtlMs = 5_000
const cachedKeysMax = 10_000
/** A stop does not wait longer for a Postgres that hangs. */
const stopTimeoutMs = 500
/**
 * Limit of concurrent look-ups. Anyone can generate well-formed keys, and their look-ups would pile up while Postgres
 * hangs.
 */
const lookupsMax = 1_000
/**
 * A statement that has no answer for so long, such as one on a connection that was cut, does not hold up the look-ups of
 * other keys.
 */
const lookupOverlapMs = 250
const lookupsFull = 'too many keys are being looked up'

/**
 * Caches the records of keys by the SHA-256 of the key; the keys themselves are not kept. As a component it polls the
 * store for changes and writes `last_used_at`. `clock` decides when keys expire. All processes share its time, and the
 * expiry of a key was set in that time.
 */
export function keyCache(
  store: Pick<KeyStore, 'findByHashes' | 'changedSince' | 'markUsed'>,
  { logger, clock }: { logger: Pick<Logger, 'warn'>; clock: Pick<Clock, 'now'> },
  times: Partial<KeyCacheTimes> = {},
): KeyCache {
  const { pollIntervalMs, markUsedEveryPolls, lookupTimeoutMs } = { ...defaultTimes, ...times }
  const cachedKeys = polledCache<KeyRecord>({
    max: cachedKeysMax,
    unknownMax: cachedKeysMax,
    unknownTtlMs: unknownKeyTtlMs,
    recheckAfterMs,
    readChanges: async (since) => {
      const { changed, cursor } = await store.changedSince(since)
      return { changed: byHash(changed), cursor }
    },
    readRows: async (hashes) => byHash(await store.findByHashes(hashes)),
  })
  const lookups = new Map<string, Promise<KeyRecord | undefined>>()
  /** Unix ms of the last use that is not written yet. */
  let lastUsedByKeyId = new Map<string, number>()
  let pollCount = 0
  const createdAt = performance.now()
  /** The last successful poll in ms of `performance.now()`, which nobody can set; undefined before the first. */
  let polledAt: number | undefined
  /** The write of `last_used_at` that is under way. */
  let writing: Promise<void> | undefined

  const refreshAgeMs = (): number => performance.now() - (polledAt ?? createdAt)

  /**
   * Records the use of a key and returns its credential. Throws AppError `unauthenticated` for a key that is revoked or
   * expired, `unavailable` when its record may be outdated.
   */
  function useKey(key: KeyRecord): Credential {
    const now = clock.now()
    if (unusableReason(key, now) !== undefined) throw invalidApiKey()
    if (refreshAgeMs() > serveUncheckedMs) {
      throw unavailable('keys could not be checked for an hour: Postgres is unavailable')
    }
    lastUsedByKeyId.set(key.keyId, now)
    return {
      keyId: key.keyId,
      name: key.name,
      environment: key.environment,
      scopes: key.scopes,
      siteIds: key.siteIds,
      rateLimits: key.rateLimits,
      allowedOrigins: key.allowedOrigins,
      expiresAt: key.expiresAt,
    }
  }

  // At most one statement runs, plus a second one while the first is slow, because anyone can generate well-formed keys:
  // the look-ups of a thousand of them would take all connections to Postgres.
  const limitStatements = concurrencyLimit(2)
  const lookUpTogether = coalesceByKey<ReadonlyMap<string, KeyRecord>>(
    async (_all, hashes) => {
      const cache = cachedKeys.beginLookup()
      const found = byHash(await limitStatements(() => store.findByHashes(hashes)))
      for (const hash of hashes) cache(hash, found.get(hash))
      if (found.size > 0) polledAt ??= performance.now()
      return found
    },
    { idsMax: lookupsMax, full: lookupsFull, overlapAfterMs: lookupOverlapMs },
  )

  async function lookUp(hash: string): Promise<KeyRecord | undefined> {
    return (await lookUpTogether('all', [hash])).get(hash)
  }

  async function writeLastUsed(): Promise<void> {
    if (lastUsedByKeyId.size === 0) return
    const written = lastUsedByKeyId
    lastUsedByKeyId = new Map()
    try {
      const locked = new Set(await store.markUsed(written))
      lastUsedByKeyId = new Map([...[...written].filter(([keyId]) => locked.has(keyId)), ...lastUsedByKeyId])
    } catch (error) {
      lastUsedByKeyId = new Map([...written, ...lastUsedByKeyId])
      throw error
    }
  }

  /** Starts a write unless one is under way. Polls do not wait for it: a revocation must not. */
  function startWriting(): void {
    writing ??= writeLastUsed()
      .catch((error: unknown) => {
        // The polls report a Postgres that is unavailable.
        if (!isRetryable(error)) logger.warn({ err: error }, 'last_used_at was not written')
      })
      .finally(() => {
        writing = undefined
      })
  }

  async function finishWriting(): Promise<void> {
    await writing
    await writeLastUsed()
  }

  /** `isWellFormed` is called only for a hash that is not cached: a checksum costs more than a look at the cache. */
  function authenticateHash(hash: string, isWellFormed: () => boolean): Credential | Promise<Credential> {
    const key = cachedKeys.get(hash)
    if (key) return useKey(key)
    if (!isWellFormed() || cachedKeys.isUnknown(hash)) throw invalidApiKey()
    let lookup = lookups.get(hash)
    if (!lookup) {
      if (lookups.size >= lookupsMax) throw unavailable(lookupsFull)
      lookup = lookUp(hash).finally(() => lookups.delete(hash))
      lookups.set(hash, lookup)
    }
    const onTimeout = () => unavailable(`a key was not looked up within ${lookupTimeoutMs} ms`)
    return withDeadline(lookup, lookupTimeoutMs, onTimeout).then((found) => {
      if (!found) throw invalidApiKey()
      return useKey(found)
    })
  }

  const polling = poller({
    name: 'key cache',
    intervalMs: pollIntervalMs,
    poll: async () => {
      pollCount++
      await cachedKeys.poll()
      polledAt = performance.now()
      if (pollCount % markUsedEveryPolls === 0) startWriting()
    },
    stop: async () => {
      const onTimeout = () => unavailable('Postgres is slow')
      await withDeadline(finishWriting(), stopTimeoutMs, onTimeout).catch((error: unknown) => {
        logger.warn({ err: error }, 'last_used_at was not written')
      })
    },
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'key changes could not be polled, serving cached keys')
    },
  })

  return {
    ...polling,
    refreshAgeMs,
    authenticate: (key) => authenticateHash(hashKey(key), () => keyEnvironment(key) !== undefined),
    authenticateHash: (hash) => authenticateHash(hash, () => true),
  }
}

function byHash(keys: readonly KeyRecord[]): ReadonlyMap<string, KeyRecord> {
  return new Map(keys.map((key) => [key.hash, key]))
}

/**
 * Registers how old the knowledge of revoked and changed keys is; docs/operations.md says at which age to raise an
 * alarm.
 */
export function addKeyRefreshAge(metrics: Metrics, keys: Pick<KeyCache, 'refreshAgeMs'>): void {
  new Gauge({
    name: 'sluice_key_refresh_age_seconds',
    help: 'Time since the keys were last compared with Postgres; cached keys are refused after an hour.',
    registers: [metrics],
    // Computed at the scrape, so that the age grows while Postgres is unavailable.
    collect() {
      this.set(keys.refreshAgeMs() / 1000)
    },
  })
}
