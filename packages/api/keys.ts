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
import { isSentOrigin } from '@sluice/runtime/origin'
import { duration, enumText, nameText, time } from '@sluice/runtime/schemas'
import { rateLimits } from './rate-limits.ts'
import { siteId } from './sites.ts'
import { timeOrNull } from './times.ts'

const overlapMsMax = 90 * dayMs

/** The longest host name has 253 characters. */
const originLengthMax = 270

const name = nameText(keyNameLengthMax).example('web shop').description('Name of the key.')

const keyScopes = joi
  .array()
  .items(enumText(scopes))
  .min(1)
  .unique()
  .messages({ 'array.min': 'must name at least one scope', 'array.unique': 'must name each scope once' })
  .example(['events:write'])
  .description('Scopes of the key. They may not exceed those of the key that creates or changes it.')

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
    'The sites that the key is bound to. Sites that are not registered yet are registered. Null: every site. Default for a new key: those of the key that creates it.',
  )

const expiresAt = time
  .allow(null)
  .description(
    'Time at which the key expires, Unix ms, in the future. Null: never. Default for a new key: that of the key that creates it.',
  )

const limits = rateLimits.description('Rate limits of the key. Null, or a limit that is left out: the default.')

/** An origin as browsers send it: scheme, host and port, without a path. Apps and extensions have other schemes. */
const origin = joi
  .string()
  .max(originLengthMax)
  .custom((value: string, helpers) => (isSentOrigin(value) ? value : helpers.error('string.origin')))
  .meta({ pattern: '^[a-z][a-z\\d+.-]*://[^\\s/?#@]+$' })
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
    'Origins of the web pages that may send events with the key; events of other pages are refused. Null: every origin. An empty list: no page.',
  )

export const createKeyBody = joi.object<CreateKeyBody>({
  name: name.required(),
  scopes: keyScopes.default([...defaultScopes]),
  environment: enumText(environments)
    .default('prod')
    .description('Environment of the events that are sent with the key, and of those that it reads.'),
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
    .description('How long the old key remains valid.'),
})

const keyFields = {
  key_id: joi.string().required(),
  name: joi.string().required(),
  environment: enumText(environments).required(),
  scopes: joi.array().items(enumText(scopes)).required(),
  site_ids: joi.array().items(joi.string()).allow(null).required(),
  hint: joi.string().required().description('Prefix and last four characters of the key, to recognise it.'),
  created_at: joi.number().integer().required(),
  last_used_at: timeOrNull.description(
    'Time of the last use, Unix ms, accurate to within a minute. Null: the key was never used.',
  ),
  expires_at: timeOrNull,
  revoked_at: timeOrNull.description('Time at which the key was revoked, Unix ms. Null: it is not revoked.'),
  rate_limits: rateLimits.required(),
  allowed_origins: joi.array().items(joi.string()).allow(null).required(),
}

export const keyResource = joi.object<KeyResource>(keyFields).id('Key')

/** The response to the creation or rotation of a key, the only one that contains the key itself. */
export const newKeyResource = joi
  .object<NewKeyResource>({
    ...keyFields,
    key: joi.string().required().description('The key itself. Store it: it is shown only once.'),
  })
  .id('KeyWithSecret')
