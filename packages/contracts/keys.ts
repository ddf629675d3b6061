import joi from 'joi'
import { defaultScopes, environments, scopes, type Environment, type Scope } from './scopes.ts'
import { text } from './validate.ts'

/** POST /api/v1/settings/keys (contract section 5). */
export interface CreateKeyBody {
  name: string
  scopes: Scope[]
  environment: Environment
  /** Unix ms. */
  expires_at?: number | null
}

export const keyNameLengthMax = 128

export const createKeyBody = joi.object<CreateKeyBody>({
  name: text(keyNameLengthMax).required(),
  scopes: joi
    .array()
    .items(joi.string().valid(...scopes))
    .min(1)
    .unique()
    .default([...defaultScopes])
    .messages({ 'array.min': 'must name at least one scope', 'array.unique': 'must name each scope once' }),
  environment: joi
    .string()
    .valid(...environments)
    .default('prod'),
  expires_at: joi.number().integer().min(0).max(8_640_000_000_000_000).allow(null),
})

/** A key's record as the interface shows it (contract section 2); times are Unix ms. */
export interface KeyResource {
  key_id: string
  name: string
  environment: Environment
  scopes: readonly Scope[]
  hint: string
  created_at: number
  last_used_at: number | null
  expires_at: number | null
  revoked_at: number | null
}
