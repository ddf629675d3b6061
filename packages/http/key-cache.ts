import { hashKey, keyEnvironment } from '@sluice/contracts/api-key'
import { invalidApiKey, SluiceError, unavailable } from '@sluice/contracts/errors'
import type { RateLimits } from '@sluice/contracts/limits'
import type { Environment, Scope } from '@sluice/contracts/scopes'
import { withDeadline } from '@sluice/runtime/deadline'
import type { Logger } from '@sluice/runtime/logger'
import { type Component, pause } from '@sluice/runtime/supervisor'
import { LRUCache } from 'lru-cache'
import type { Credential } from './route.ts'

/** What a cached key must tell; packages/postgres/keys.ts has it. */
export interface CachedKey {
  keyId: string
  environment: Environment
  scopes: readonly Scope[]
  siteIds: readonly string[] | null
  rateLimits: RateLimits | null
  hash: string
  expiresAt: Date | null
  revokedAt: Date | null
}

/** Where keys come from; satisfied by the key store. */
export interface KeySource {
  findByHash(hash: string): Promise<CachedKey | undefined>
  changedSince(since: Date | undefined): Promise<{ keys: readonly CachedKey[]; asOf: Date }>
  markUsed(lastUsed: ReadonlyMap<string, Date>): Promise<void>
}

export interface KeyCache extends Component {
  /**
   * Who presents this key. Answers at once for a cached key, so that the hot path awaits nothing.
   * Throws (or rejects with) 401 for an unusable key, 503 when Postgres is needed and away.
   */
  authenticate(key: string): Credential | Promise<Credential>
  /** The same for a key of which only the hash is known: a session's. */
  authenticateHash(hash: string): Credential | Promise<Credential>
}

export interface KeyCacheTimes {
  /** A revocation reaches every process within 2 s: one poll a second, and the poll's own time. */
  pollIntervalMs: number
  /** `last_used_at` is true within a minute. */
  markUsedEveryPolls: number
}

const defaultTimes: KeyCacheTimes = { pollIntervalMs: 1_000, markUsedEveryPolls: 20 }
/** With Postgres away, cached keys serve this long: ingestion goes on, and nobody can revoke a key meanwhile anyway. */
const serveUncheckedMs = 3_600_000
const unknownKeyTtlMs = 5_000
const cachedKeysMax = 10_000
/** A request waits no longer for a Postgres that hangs; the look-up itself goes on until its statement times out. */
const lookupTimeoutMs = 1_000
/** Keys that look right cost nothing to make: with Postgres hanging, more of them would only wait. */
const lookupsMax = 1_000

/** Caches keys by their SHA-256; the keys themselves are not kept. Its `run` polls for changes and writes `last_used_at`. */
export function keyCache(
  source: KeySource,
  logger: Logger,
  { pollIntervalMs, markUsedEveryPolls }: KeyCacheTimes = defaultTimes,
): KeyCache {
  const known = new LRUCache<string, CachedKey>({ max: cachedKeysMax })
  const unknown = new LRUCache<string, true>({ max: cachedKeysMax, ttl: unknownKeyTtlMs })
  const lookups = new Map<string, Promise<CachedKey | undefined>>()
  let used = new Map<string, Date>()
  let polledAt = 0
  let cursor: Date | undefined

  function accept(key: CachedKey): Credential {
    const now = Date.now()
    if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt.getTime() <= now)) throw invalidApiKey()
    if (now - polledAt > serveUncheckedMs) {
      throw unavailable('keys could not be checked for an hour: Postgres is away')
    }
    used.set(key.keyId, new Date(now))
    return {
      keyId: key.keyId,
      environment: key.environment,
      scopes: key.scopes,
      siteIds: key.siteIds,
      rateLimits: key.rateLimits,
      expiresAt: key.expiresAt?.getTime() ?? null,
    }
  }

  async function lookUp(hash: string): Promise<CachedKey | undefined> {
    const key = await source.findByHash(hash)
    if (key) {
      known.set(hash, key)
      if (polledAt === 0) polledAt = Date.now()
    } else {
      known.delete(hash)
      unknown.set(hash, true)
    }
    return key
  }

  async function poll(): Promise<void> {
    const { keys, asOf } = await source.changedSince(cursor)
    // Whatever was looked up before the first poll may have changed before it: looked up again, and not dropped, so that
    // a Postgres that goes away right now finds these keys cached.
    if (cursor === undefined) for (const hash of [...known.keys()]) await lookUp(hash)
    for (const key of keys) {
      unknown.delete(key.hash)
      if (known.has(key.hash)) known.set(key.hash, key)
    }
    cursor = asOf
    polledAt = Date.now()
  }

  async function writeUsed(): Promise<void> {
    if (used.size === 0) return
    const written = used
    used = new Map()
    try {
      await source.markUsed(written)
    } catch (error) {
      used = new Map([...written, ...used])
      throw error
    }
  }

  function authenticateHash(hash: string, isKey: () => boolean = () => true): Credential | Promise<Credential> {
    const key = known.get(hash)
    if (key) return accept(key)
    if (!isKey() || unknown.has(hash)) throw invalidApiKey()
    let lookup = lookups.get(hash)
    if (!lookup) {
      if (lookups.size >= lookupsMax) throw unavailable('too many keys are being looked up')
      lookup = lookUp(hash).finally(() => lookups.delete(hash))
      lookups.set(hash, lookup)
    }
    const late = () => unavailable(`a key was not looked up within ${lookupTimeoutMs} ms`)
    return withDeadline(lookup, lookupTimeoutMs, late).then((found) => {
      if (!found) throw invalidApiKey()
      return accept(found)
    })
  }

  return {
    name: 'key cache',
    authenticate: (presented) => authenticateHash(hashKey(presented), () => keyEnvironment(presented) !== undefined),
    authenticateHash: (hash) => authenticateHash(hash),
    run: async (signal) => {
      let away = false
      for (let polls = 1; !signal.aborted; polls++) {
        try {
          await poll()
          if (polls % markUsedEveryPolls === 0) await writeUsed()
          away = false
        } catch (error) {
          if (!(error instanceof SluiceError && error.retryable)) throw error
          if (!away) logger.warn({ err: error }, 'keys can not be checked for changes, cached ones are served')
          away = true
        }
        await pause(pollIntervalMs, signal)
      }
      await writeUsed().catch((error: unknown) => {
        logger.warn({ err: error }, 'last_used_at was not written')
      })
    },
  }
}
