import joi from 'joi'
import {
  type CreateKeyBody,
  keyNameLengthMax,
  keyOriginsMax,
  type KeyResource,
  keySitesMax,
  type NewKeyResource,
  type RotateKeyBody,
  type UpdateKeyBody,
} from '@sluice/contracts/keys'
import { defaultScopes, environments, scopes } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import { isOrigin } from '@sluice/runtime/origin'
import { duration, enumText, nameText, time } from '@sluice/runtime/schemas'
import { rateLimits } from './rate-limits.ts'
import { siteId } from './sites.ts'
import { timeOrNull } from './times.ts'

const overlapMsMax = 90 * dayMs

/** The longest host name has 253 characters. */
const originLengthMax = 270

const name = nameText(keyNameLengthMax).example('web shop').description('What you call it.')

const keyScopes = joi
  .array()
  .items(enumText(scopes))
  .min(1)
  .unique()
  .messages({ 'array.min': 'must name at least one scope', 'array.unique': 'must name each scope once' })
  .example(['events:write'])
  .description('What the key may do; at most what its maker may.')

const siteIds = joi
  .array()
  // `""` and `null` are invalid in the list instead of absent.
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

/** An origin as browsers send it: scheme, host and port, without a path. */
const origin = joi
  .string()
  .max(originLengthMax)
  .custom((value: string, helpers) => (isOrigin(value) ? value : helpers.error('string.origin')))
  .meta({ pattern: '^https?://[^/?#@]+$' })
  .messages({ 'string.origin': 'must be an origin as browsers send it, e.g. https://shop.example' })

const allowedOrigins = joi
  .array()
  .items(origin)
  .max(keyOriginsMax)
  .unique()
  .allow(null)
  .messages({ 'array.unique': 'must name each origin once' })
  .example(['https://shop.example'])
  .description(
    'For a key in web pages: events that a page of another origin sends are refused. Null: every origin. An empty list: none.',
  )

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
  allowed_origins: allowedOrigins,
})

export const updateKeyBody = joi.object<UpdateKeyBody>({
  // A key always has a name: `null` and `""` are invalid here instead of absent.
  name: name.empty(),
  scopes: keyScopes,
  site_ids: siteIds,
  expires_at: expiresAt,
  rate_limits: limits,
  allowed_origins: allowedOrigins,
})

export const rotateKeyBody = joi.object<RotateKeyBody>({
  overlap: duration(overlapMsMax)
    .default(0)
    .meta({ default: '0s' })
    .example('7d')
    .description('How long the old key goes on working.'),
})

const keyFields = {
  key_id: joi.string().required(),
  name: joi.string().required(),
  environment: joi
    .string()
    .valid(...environments)
    .required(),
  scopes: joi.array().items(enumText(scopes)).required(),
  site_ids: joi.array().items(joi.string()).allow(null).required(),
  hint: joi.string().required().description('Its first and last characters, to know it by.'),
  created_at: joi.number().integer().required(),
  last_used_at: timeOrNull.description('True within a minute.'),
  expires_at: timeOrNull,
  revoked_at: timeOrNull.description('Since when it is refused.'),
  rate_limits: rateLimits.required(),
  allowed_origins: joi.array().items(joi.string()).allow(null).required(),
}

export const keyResource = joi.object<KeyResource>(keyFields).id('Key')

/** The response to the creation or rotation of a key, the only one that contains the key itself. */
export const newKeyResource = joi
  .object<NewKeyResource>({
    ...keyFields,
    key: joi.string().required().description('The key itself: keep it, it is shown this once.'),
  })
  .id('NewKey')
