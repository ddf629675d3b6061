import type { Environment, Scope } from './scopes.ts'
import { dayMs } from './time-units.ts'

/** POST /api/v1/session (docs/http-interface.md#sessions): exactly one of the two. */
export interface CreateSessionBody {
  api_key?: string
  /** A sign-in code (docs/http-interface.md#sign-in-codes). */
  code?: string
}

/** A session ends after this time without a request, in ms. */
export const sessionIdleMs = dayMs

/** A session ends after this time in any case, in ms. */
export const sessionAgeMsMax = 7 * dayMs

/** A sign-in code can be used for this time, in ms. */
export const signInCodeMs = 10 * 60_000

/** A session, or the key of a request, in responses. */
export interface SessionResource {
  /** Unix ms. */
  expires_at: number | null
  key_id: string
  scopes: readonly Scope[]
  /** The name of the key. */
  name: string
  environment: Environment
  /** Null: every site. */
  site_ids: readonly string[] | null
  /** The origin of the gateway, as `https://collect.example`: events go to `/collect` there. */
  collect_url: string
}

/** A new session with its token, the value of the cookie `session`. */
export interface NewSessionResource extends SessionResource {
  session_token: string
}
