import joi from 'joi'
import { rateLimits, type RateLimits } from './limits.ts'
import { defaultScopes, environments, scopes, type Environment, type Scope } from './scopes.ts'
import { siteId } from './sites.ts'
import { duration, text, time } from './validate.ts'

/** POST /api/v1/settings/keys (contract section 5). */
export interface CreateKeyBody {
  name: string
  scopes: Scope[]
  environment: Environment
  /** Null: every site; absent: those of the key that makes it. */
  site_ids?: string[] | null
  /** Unix ms. */
  expires_at?: number | null
  rate_limits?: RateLimits | null
}

/** PUT …/{key_id}: fields left out keep their value; a key stays in its environment. */
export type UpdateKeyBody = Partial<Omit<CreateKeyBody, 'environment'>>

/** POST …/{key_id}/rotate. */
export interface RotateKeyBody {
  /** How long the old key goes on working, in ms. */
  overlap: number
}

export const keyNameLengthMax = 128
export const keySitesMax = 1_000
const overlapMsMax = 90 * 24 * 3_600_000

const name = text(keyNameLengthMax).example('web shop').description('What you call it.')
const keyScopes = joi
  .array()
  .items(joi.string().valid(...scopes))
  .min(1)
  .unique()
  .messages({ 'array.min': 'must name at least one scope', 'array.unique': 'must name each scope once' })
  .example(['events:write'])
  .description('What the key may do; at most what its maker may.')
const siteIds = joi
  .array()
  // Nothing is no site, rather than left out.
  .items(siteId.empty())
  .min(1)
  .max(keySitesMax)
  .unique()
  .allow(null)
  .messages({ 'array.min': 'must name at least one site, or be null', 'array.unique': 'must name each site once' })
  .description(
    'The sites that the key is bound to, which are registered by it. Null: every site. Left out of a new key: those of its maker.',
  )
const expiresAt = time.allow(null).description('Unix ms, in the future. Null: never.')
const limits = rateLimits.description('The key’s own limits. Null: the defaults.')

export const createKeyBody = joi.object<CreateKeyBody>({
  name: name.required(),
  scopes: keyScopes.default([...defaultScopes]),
  environment: joi
    .string()
    .valid(...environments)
    .default('prod')
    .description('Where its events are stored, and which its reads see.'),
  site_ids: siteIds,
  expires_at: expiresAt,
  rate_limits: limits,
})

export const updateKeyBody = joi.object<UpdateKeyBody>({
  // A key has a name: none at all is a mistake here, not a field left out.
  name: name.empty(),
  scopes: keyScopes,
  site_ids: siteIds,
  expires_at: expiresAt,
  rate_limits: limits,
})

export const rotateKeyBody = joi.object<RotateKeyBody>({
  overlap: duration(overlapMsMax)
    .default(0)
    .meta({ default: '0s' })
    .example('7d')
    .description('How long the old key goes on working.'),
})

/** A key's record as the interface shows it (contract section 2); times are Unix ms. */
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
}

const keyFields = {
  key_id: joi.string().required(),
  name: joi.string().required(),
  environment: joi
    .string()
    .valid(...environments)
    .required(),
  scopes: joi
    .array()
    .items(joi.string().valid(...scopes))
    .required(),
  site_ids: joi.array().items(joi.string()).allow(null).required(),
  hint: joi.string().required().description('Its first and last characters, to know it by.'),
  created_at: joi.number().integer().required(),
  last_used_at: joi.number().integer().allow(null).required().description('True within a minute.'),
  expires_at: joi.number().integer().allow(null).required(),
  revoked_at: joi.number().integer().allow(null).required().description('Since when it is refused.'),
  rate_limits: rateLimits.required(),
}

export const keyResource = joi.object<KeyResource>(keyFields).id('Key')

/** The answer that holds the key itself: at its creation, and never again. */
export const newKeyResource = joi
  .object({ ...keyFields, key: joi.string().required().description('The key itself: keep it, it is shown this once.') })
  .id('NewKey')
