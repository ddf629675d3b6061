/** Scopes of a key, in the order of docs/http-interface.md#scopes. `admin` grants everything. */
export const scopes = ['events:write', 'stats:read', 'cohorts:read', 'cohorts:write', 'admin'] as const

export type Scope = (typeof scopes)[number]

/** The scopes of a key that is created without a list of scopes (docs/http-interface.md#create-key). */
export const defaultScopes: readonly Scope[] = ['events:write', 'stats:read']

/** Whether a key that holds these scopes may use an operation that requires one. */
export function grants(held: readonly Scope[], required: Scope): boolean {
  return held.includes('admin') || held.includes(required)
}

/** The sites that a key is bound to, whose records it sees; null: all sites. */
export type SiteIds = readonly string[] | null

/** Whether a key that is bound to `siteIds` may name a site. */
export function allowsSite(siteIds: SiteIds, siteId: string): boolean {
  return siteIds === null || siteIds.includes(siteId)
}

/** Environments in which a key's events are stored and that its reads see (docs/http-interface.md#environments). */
export const environments = ['prod', 'dev'] as const

export type Environment = (typeof environments)[number]
