import type { SiteIds } from '@sluice/contracts/scopes'

/**
 * Creates a function that turns a credential's `siteIds` into a set; null, a key that is not bound to sites, becomes
 * undefined. Each list is turned into a set once, because a credential refers to the list of its cached key, and a
 * changed key gets a new list.
 */
export function allowedSites(): (siteIds: SiteIds) => ReadonlySet<string> | undefined {
  const sets = new WeakMap<readonly string[], ReadonlySet<string>>()
  return (siteIds) => {
    if (siteIds === null) return undefined
    let set = sets.get(siteIds)
    if (set === undefined) {
      set = new Set(siteIds)
      sets.set(siteIds, set)
    }
    return set
  }
}
