import { LRUCache } from 'lru-cache'
import { dayMs } from '@sluice/contracts/time-units'
import { withDeadline } from '@sluice/runtime/deadline'
import { type AppError, invalidField, isRetryable, notFound, rateLimited, unavailable } from '@sluice/runtime/errors'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { Logger } from '@sluice/runtime/logger'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'
import { coalesceByKey } from './coalesce-by-key.ts'
import { rateLimitedUntil } from './limiter.ts'
import { polledCache } from './polled-cache.ts'
import type { SiteStore } from './sites.ts'

/** Which events of a site are accepted: none (`refusal`), or those that are at most `retentionMs` old. */
export type SitePolicy = { refusal: AppError } | { retentionMs: number }

/** Policies by site id. A site that accepts every event has no entry. */
export type SitePolicies = ReadonlyMap<string, SitePolicy>

/** Registers sites and knows their policies. As a component it polls the store for changes. */
export interface SiteCache extends Component {
  /**
   * Registers the sites that this process has not seen yet, before their events get a 202
   * (docs/http-interface.md#new-sites), and returns the policies of all of them. It returns without a promise when all
   * are cached.
   *
   * While Postgres is unavailable or slow it registers none and resolves: the next event of the site tries again, and
   * until then the query service finds the site by its events. Where only administrators register sites, an unknown one
   * is refused, and the promise rejects with AppError `unavailable` while Postgres is unavailable.
   */
  register(keyId: string, siteIds: ReadonlySet<string>): SitePolicies | Promise<SitePolicies>
}

const cachedSitesMax = 100_000
/**
 * Sites are read again more rarely than keys. There may be ten times as many, and an event that is too old does less
 * harm than a lost key.
 */
const recheckSitesAfterMs = 600_000
/** Postgres must not delay an event for longer: the whole request has 2.5 s. */
const defaultRegisterTimeoutMs = 400
/** How long a refusal is repeated without a query, although another key may have registered the site meanwhile. */
const refusalTtlMs = 10_000
const cachedRefusalsMax = 10_000
/** While Postgres is unavailable, each event of a new site would otherwise write a log line. */
const logIntervalMs = 1_000
/** Limit of the new sites of one key that wait while Postgres registers others. */
const queuedSitesMax = 10_000
const defaultPollIntervalMs = 1_000

const noPolicies: SitePolicies = new Map()
/** The policy of a site that accepts every event; compared by its identity. */
const acceptsEverything: SitePolicy = { retentionMs: Infinity }

function retentionPolicy(retentionDays: number | null): SitePolicy {
  return retentionDays === null ? acceptsEverything : { retentionMs: retentionDays * dayMs }
}

/** The reason why a site does not accept an event; undefined when it does. Both times are Unix ms. */
export function refusalOf(policy: SitePolicy, timestamp: number, receivedAt: number): AppError | undefined {
  if ('refusal' in policy) return policy.refusal
  if (timestamp >= receivedAt - policy.retentionMs) return undefined
  const retentionDays = policy.retentionMs / dayMs
  return invalidField('timestamp', `must not be older than the retention_days of its site, ${retentionDays}`)
}

/**
 * Caches registered sites with their policies. As a component it polls the store for changes; while Postgres is
 * unavailable, the cached policies hold.
 */
export function siteCache(
  store: Pick<SiteStore, 'registerFor' | 'findRegistered' | 'changedSince'>,
  logger: Pick<Logger, 'warn'>,
  {
    autoRegister,
    pollIntervalMs = defaultPollIntervalMs,
    registerTimeoutMs = defaultRegisterTimeoutMs,
  }: { autoRegister: boolean; pollIntervalMs?: number; registerTimeoutMs?: number | undefined },
): SiteCache {
  /** Policies of the registered sites that this process has seen, and ids that it knows not to be registered. */
  const cachedPolicies = polledCache<SitePolicy>({
    max: cachedSitesMax,
    unknownMax: cachedRefusalsMax,
    unknownTtlMs: refusalTtlMs,
    recheckAfterMs: recheckSitesAfterMs,
    readChanges: async (since) => {
      const { changed, ...changes } = await store.changedSince(since)
      return {
        ...changes,
        changed: changed.map(({ siteId, retentionDays }) => [siteId, retentionPolicy(retentionDays)]),
      }
    },
    readRows: async (siteIds) => {
      const registered = await store.findRegistered(siteIds)
      return new Map([...registered].map(([siteId, retentionDays]) => [siteId, retentionPolicy(retentionDays)]))
    },
  })
  /** Unix ms at which a key may register a site, by `<key id> <site id>`. */
  const refusedUntil = new LRUCache<string, number>({ max: cachedRefusalsMax, ttl: refusalTtlMs })
  const isLogDue = logThrottle(logIntervalMs)
  let unreportedCount = 0

  function logUnregistered(sites: number, reason: string): void {
    unreportedCount += sites
    if (!isLogDue()) return
    logger.warn({ sites: unreportedCount, reason }, 'new sites not registered, retrying on their next events')
    unreportedCount = 0
  }

  async function registerUnseen(keyId: string, siteIds: readonly string[]): Promise<SitePolicies> {
    const cache = cachedPolicies.beginLookup()
    const { refused, retryAfterSeconds, retentionDays } = await store.registerFor(keyId, siteIds)
    const refusedIds = new Set(refused)
    return collectPolicies(siteIds, (siteId) => {
      if (refusedIds.has(siteId)) {
        refusedUntil.set(`${keyId} ${siteId}`, Date.now() + retryAfterSeconds * 1000)
        return { refusal: rateLimited(retryAfterSeconds) }
      }
      const policy = retentionPolicy(retentionDays.get(siteId) ?? null)
      cache(siteId, policy)
      return policy
    })
  }

  async function findUnseen(siteIds: readonly string[]): Promise<SitePolicies> {
    const cache = cachedPolicies.beginLookup()
    const registered = await store.findRegistered(siteIds)
    return collectPolicies(siteIds, (siteId) => {
      const retentionDays = registered.get(siteId)
      const policy = retentionDays === undefined ? undefined : retentionPolicy(retentionDays)
      cache(siteId, policy)
      return policy ?? { refusal: notFound('Site') }
    })
  }

  // To count new sites exactly, Postgres handles the calls of one key one after the other anyway. A thousand concurrent
  // calls with a new site each would wait for one another.
  const fetchPolicies = coalesceByKey<SitePolicies>(
    (keyId, siteIds) => (autoRegister ? registerUnseen(keyId, siteIds) : findUnseen(siteIds)),
    { idsMax: queuedSitesMax, full: 'too many new sites wait for Postgres' },
  )

  /** The policy of a site as cached; undefined when Postgres has to be read. */
  function cachedPolicy(keyId: string, siteId: string): SitePolicy | undefined {
    const policy = cachedPolicies.get(siteId)
    if (policy !== undefined) return policy
    if (!autoRegister) return cachedPolicies.isUnknown(siteId) ? { refusal: notFound('Site') } : undefined
    const until = refusedUntil.get(`${keyId} ${siteId}`)
    if (until === undefined) return undefined
    return { refusal: rateLimitedUntil(until) }
  }

  /** Returns `cached` and the policies of the unseen sites. */
  async function addUnseen(keyId: string, unseen: readonly string[], cached: SitePolicies): Promise<SitePolicies> {
    try {
      const onTimeout = () => unavailable('Postgres is slow')
      const fetched = await withDeadline(fetchPolicies(keyId, unseen), registerTimeoutMs, onTimeout)
      return new Map([...cached, ...collectPolicies(unseen, (siteId) => fetched.get(siteId) ?? acceptsEverything)])
    } catch (error) {
      // Where only administrators register sites, events of a site that may be unknown must not be accepted.
      if (!autoRegister || !isRetryable(error)) throw error
      logUnregistered(unseen.length, error.internal)
      return cached
    }
  }

  const polling = poller({
    name: 'known sites',
    intervalMs: pollIntervalMs,
    poll: () => cachedPolicies.poll(),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'site changes could not be polled, using cached settings')
    },
  })

  return {
    ...polling,
    register: (keyId, siteIds) => {
      let unseen: string[] | undefined
      let policies: Map<string, SitePolicy> | undefined
      for (const siteId of siteIds) {
        const policy = cachedPolicy(keyId, siteId)
        if (policy === undefined) (unseen ??= []).push(siteId)
        else if (policy !== acceptsEverything) (policies ??= new Map()).set(siteId, policy)
      }
      return unseen === undefined ? (policies ?? noPolicies) : addUnseen(keyId, unseen, policies ?? noPolicies)
    },
  }
}

/** The policies of sites, without those that accept every event. */
function collectPolicies(
  siteIds: readonly string[],
  policyOf: (siteId: string) => SitePolicy,
): Map<string, SitePolicy> {
  const policies = new Map<string, SitePolicy>()
  for (const siteId of siteIds) {
    const policy = policyOf(siteId)
    if (policy !== acceptsEverything) policies.set(siteId, policy)
  }
  return policies
}
