/**
 * The sites that a key is bound to, as a set; undefined for a key that is bound to none. Each list's set is made once: a
 * credential's list is that of its cached key, which goes when the key changes.
 */
export function boundSites(): (siteIds: readonly string[] | null) => ReadonlySet<string> | undefined {
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
