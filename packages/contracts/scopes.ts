/** Scopes of a key, in the order of contract section 2. `admin` grants everything. */
export const scopes = ['events:write', 'stats:read', 'cohorts:read', 'cohorts:write', 'admin'] as const

export type Scope = (typeof scopes)[number]

/** What a key gets when its maker names no scopes (contract section 5). */
export const defaultScopes: readonly Scope[] = ['events:write', 'stats:read']

export function grants(held: readonly Scope[], required: Scope): boolean {
  return held.includes('admin') || held.includes(required)
}

/** Whether a key that is bound to `siteIds` (null: to none) may name a site. */
export function allowsSite(siteIds: readonly string[] | null, siteId: string): boolean {
  return siteIds === null || siteIds.includes(siteId)
}

/** Where a key's events are stored, and what its reads see (contract section 2). */
export const environments = ['prod', 'dev'] as const

export type Environment = (typeof environments)[number]

/** Limit class of a route: which of a key's three limits a request counts against (contract section 2, "Limits"). */
export const limitClasses = ['events', 'queries', 'admin'] as const

export type LimitClass = (typeof limitClasses)[number]
