import type { RateLimits } from '@sluice/contracts/rate-limits'
import type { Environment, Scope, SiteIds } from '@sluice/contracts/scopes'

/** The rights of a request, as the checks before the handler found them (docs/http-interface.md#credentials). */
export interface Credential {
  keyId: string
  /** The name that the owner gave to the key. */
  name: string
  environment: Environment
  scopes: readonly Scope[]
  siteIds: SiteIds
  /** The key's own limits; null: the defaults. */
  rateLimits: RateLimits | null
  /** The origins whose pages may send events with the key; null: every origin. */
  allowedOrigins: readonly string[] | null
  /** Unix ms; null: the key does not expire. */
  expiresAt: number | null
}

/** The session of a browser that a credential belongs to. */
export interface Session {
  /** SHA-256 of the session's token. */
  tokenHash: string
  /** Unix ms at which the session ends unless it is used before. */
  expiresAt: number
}
