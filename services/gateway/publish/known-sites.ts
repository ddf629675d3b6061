import { SluiceError, unavailable } from '@sluice/contracts/errors'
import { withDeadline } from '@sluice/runtime/deadline'
import type { Logger } from '@sluice/runtime/logger'
import { LRUCache } from 'lru-cache'

/** Registers sites in the name of a key, up to the key's limit; satisfied by the site store. */
export interface SiteRegistry {
  registerFor(
    keyId: string,
    siteIds: readonly string[],
  ): Promise<{ refused: readonly string[]; retryAfterSeconds: number }>
}

/** Sites that a key may not register now, with the seconds until it may. */
export type RefusedSites = ReadonlyMap<string, number>

export interface KnownSites {
  /**
   * Registers the sites that this process has not seen yet, before their events get a 202; returns those that the key
   * may not register. With Postgres away or slow it gives up for now: the site's next event tries again, and until then
   * the query service finds it by its events. Returns at once when all are known.
   */
  register(keyId: string, siteIds: ReadonlySet<string>): RefusedSites | Promise<RefusedSites>
}

const cachedSitesMax = 100_000
/** Postgres must not hold an event up for longer: the whole answer has 2.5 s. */
const registerTimeoutMs = 400
/** A refused site may be registered by another key meanwhile; until then Postgres is not asked again. */
const refusalTtlMs = 10_000
const cachedRefusalsMax = 10_000
/** Postgres that is away would otherwise be told with every event of a new site. */
const toldEveryMs = 1_000
/** New sites of one key that wait while Postgres registers others. */
const gatheredSitesMax = 10_000

const noneRefused: RefusedSites = new Map()

export function knownSites(registry: SiteRegistry, logger: Logger): KnownSites {
  const known = new LRUCache<string, true>({ max: cachedSitesMax })
  /** Unix ms at which a key may register a site. */
  const refusals = new LRUCache<string, number>({ max: cachedRefusalsMax, ttl: refusalTtlMs })
  let toldAt = -Infinity
  let untold = 0

  function tellUnregistered(sites: number, reason: string): void {
    untold += sites
    const now = performance.now()
    if (now - toldAt < toldEveryMs) return
    logger.warn({ sites: untold, reason }, 'new sites were not registered, their next events try again')
    toldAt = now
    untold = 0
  }

  const ask = oneCallAtATime(async (keyId, siteIds) => {
    const { refused, retryAfterSeconds } = await registry.registerFor(keyId, siteIds)
    const refusedIds = new Set(refused)
    for (const siteId of siteIds) {
      if (refusedIds.has(siteId)) refusals.set(`${keyId} ${siteId}`, Date.now() + retryAfterSeconds * 1000)
      else known.set(siteId, true)
    }
    return new Map(refused.map((siteId) => [siteId, retryAfterSeconds]))
  })

  async function registerNew(
    keyId: string,
    siteIds: readonly string[],
    refused: ReadonlyMap<string, number>,
  ): Promise<RefusedSites> {
    try {
      const answer = await withDeadline(ask(keyId, siteIds), registerTimeoutMs, () => unavailable('Postgres is slow'))
      const all = new Map(refused)
      for (const siteId of siteIds) {
        const seconds = answer.get(siteId)
        if (seconds !== undefined) all.set(siteId, seconds)
      }
      return all
    } catch (error) {
      if (!(error instanceof SluiceError && error.retryable)) throw error
      tellUnregistered(siteIds.length, error.internal)
      return refused
    }
  }

  return {
    register: (keyId, siteIds) => {
      let unseen: string[] | undefined
      let refused: Map<string, number> | undefined
      for (const siteId of siteIds) {
        if (known.get(siteId)) continue
        const until = refusals.get(`${keyId} ${siteId}`)
        if (until === undefined) (unseen ??= []).push(siteId)
        else (refused ??= new Map()).set(siteId, Math.max(1, Math.ceil((until - Date.now()) / 1000)))
      }
      return unseen === undefined ? (refused ?? noneRefused) : registerNew(keyId, unseen, refused ?? noneRefused)
    },
  }
}

type Ask = (keyId: string, siteIds: readonly string[]) => Promise<RefusedSites>

/**
 * One call for each key at a time; what comes meanwhile goes together in the next one. Postgres takes them one by one
 * anyway, to count exactly, and a thousand new sites at once would wait for each other.
 */
function oneCallAtATime(call: Ask): Ask {
  /** When each key's last call is over, whatever comes of it. */
  const ends = new Map<string, Promise<void>>()
  const gathered = new Map<string, { siteIds: Set<string>; answer: Promise<RefusedSites> }>()

  function gather(keyId: string): { siteIds: Set<string>; answer: Promise<RefusedSites> } {
    const siteIds = new Set<string>()
    const answer = (ends.get(keyId) ?? Promise.resolve()).then(() => {
      gathered.delete(keyId)
      return call(keyId, [...siteIds])
    })
    const end = answer
      .catch(() => undefined)
      .then(() => {
        if (ends.get(keyId) === end) ends.delete(keyId)
      })
    ends.set(keyId, end)
    const next = { siteIds, answer }
    gathered.set(keyId, next)
    return next
  }

  return (keyId, siteIds) => {
    const { siteIds: together, answer } = gathered.get(keyId) ?? gather(keyId)
    if (together.size + siteIds.length > gatheredSitesMax) {
      return Promise.reject(unavailable('too many new sites wait for Postgres'))
    }
    for (const siteId of siteIds) together.add(siteId)
    return answer
  }
}
