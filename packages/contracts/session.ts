import joi from 'joi'
import { scopes, type Scope } from './scopes.ts'
import { text } from './validate.ts'

/** POST /api/v1/session (contract section 2). */
export interface CreateSessionBody {
  api_key: string
}

/** Stands for a key wherever one is shown. */
export const exampleApiKey = 'svc_prod_…'

export const createSessionBody = joi.object<CreateSessionBody>({ api_key: text(256).required().example(exampleApiKey) })

/** A session ends after so long without a request … */
export const sessionIdleMs = 24 * 3_600_000
/** … and after so long in any case. */
export const sessionAgeMsMax = 7 * 24 * 3_600_000

export interface SessionResource {
  /** Unix ms. */
  expires_at: number | null
  key_id: string
  scopes: readonly Scope[]
}

const session = {
  expires_at: joi.number().integer().allow(null).required(),
  key_id: joi.string().required(),
  scopes: joi
    .array()
    .items(joi.string().valid(...scopes))
    .required(),
}

/** Who asks, as GET tells; `expires_at` is null for a key that does not expire. */
export const sessionResource = joi.object<SessionResource>(session).id('Session')

export const newSessionResource = joi
  .object({
    session_token: joi.string().required().description('What the cookie `session` holds.'),
    ...session,
  })
  .id('NewSession')
