import type { RateLimits } from './rate-limits.ts'
import type { Environment, Scope } from './scopes.ts'

/** POST /api/v1/settings/keys (docs/http-interface.md#create-key). */
export interface CreateKeyBody {
  name: string
  scopes: Scope[]
  environment: Environment
  /** Null: every site; absent: the sites of the creating key. */
  site_ids?: string[] | null
  /** Unix ms. */
  expires_at?: number | null
  rate_limits?: RateLimits | null
  /** Null: every origin. */
  allowed_origins?: string[] | null
}

/** PUT …/{key_id}: absent fields keep their value; a key stays in its environment. */
export type UpdateKeyBody = Partial<Omit<CreateKeyBody, 'environment'>>

/** POST …/{key_id}/rotate. */
export interface RotateKeyBody {
  /** Time for which the old key stays valid, in ms. */
  overlap: number
}

/** Code points of a key's name. */
export const keyNameLengthMax = 128

/** Sites that one key may be limited to. */
export const keySitesMax = 1_000

/** Origins from which browsers may use a key. */
export const keyOriginsMax = 100

/** A key in responses (docs/http-interface.md#key-record); times are Unix ms. */
export interface KeyResource {
  key_id: string
  name: string
  environment: Environment
  scopes: readonly Scope[]
  site_ids: readonly string[] | null
  hint: string
  created_at: number
  last_used_at: number | null
  expires_at: number | null
  revoked_at: number | null
  rate_limits: RateLimits | null
  allowed_origins: readonly string[] | null
}

/** The record of a new key with the key itself, which no later response contains. */
export interface NewKeyResource extends KeyResource {
  key: string
}
