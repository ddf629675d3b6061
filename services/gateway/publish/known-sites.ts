import { SluiceError, unavailable } from '@sluice/contracts/errors'
import type { Logger } from '@sluice/runtime/logger'
import { LRUCache } from 'lru-cache'

/** Registers sites; satisfied by the site store. */
export interface SiteRegistry {
  register(siteIds: readonly string[]): Promise<void>
}

export interface KnownSites {
  /**
   * Registers the sites that this process has not seen yet, before their events get a 202. With Postgres away or slow
   * it gives up for now: the site's next event tries again, and until then the query service finds it by its events.
   * Returns at once when all are known.
   */
  register(siteIds: ReadonlySet<string>): void | Promise<void>
}

const cachedSitesMax = 100_000
/** Postgres must not hold an event up for longer: the whole answer has 2.5 s. */
const registerTimeoutMs = 500

export function knownSites(registry: SiteRegistry, logger: Logger): KnownSites {
  const known = new LRUCache<string, true>({ max: cachedSitesMax })

  async function registerNew(siteIds: readonly string[]): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => {
      reject(unavailable('Postgres is slow'))
    }, registerTimeoutMs)
    const registered = registry.register(siteIds).then(() => {
      for (const siteId of siteIds) known.set(siteId, true)
    })
    try {
      await Promise.race([registered, late])
    } catch (error) {
      if (!(error instanceof SluiceError && error.retryable)) throw error
      logger.warn({ sites: siteIds.length, err: error }, 'new sites were not registered, their next events try again')
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    register: (siteIds) => {
      let unseen: string[] | undefined
      for (const siteId of siteIds) if (!known.get(siteId)) (unseen ??= []).push(siteId)
      if (unseen !== undefined) return registerNew(unseen)
    },
  }
}
