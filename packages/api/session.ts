import joi from 'joi'
import { environments, scopes } from '@sluice/contracts/scopes'
import type { CreateSessionBody, NewSessionResource, SessionResource } from '@sluice/contracts/session'
import { enumText, text } from '@sluice/runtime/schemas'
import { timeOrNull } from './times.ts'

/** A placeholder for keys in examples. */
export const exampleApiKey = 'svc_prod_…'

/** The handler refuses a body with both fields and one with none. */
export const createSessionBody = joi.object<CreateSessionBody>({
  api_key: text(256).description('The API key; required without `code`, refused with it.').example(exampleApiKey),
  code: text(256).description('Instead of a key: the sign-in code in the link that `npm start` prints.'),
})

const session = {
  expires_at: timeOrNull,
  key_id: joi.string().required(),
  scopes: joi.array().items(enumText(scopes)).required(),
  name: joi.string().required().description('Name of the key.'),
  environment: enumText(environments).required(),
  site_ids: joi
    .array()
    .items(joi.string())
    .allow(null)
    .required()
    .description('The sites that the key is bound to. Null: every site.'),
  collect_url: joi.string().required().description('Base URL for events, which are sent to `/collect` below it.'),
}

/** The credential of the request; `expires_at` is null for a key that does not expire. */
export const sessionResource = joi.object<SessionResource>(session).id('Session')

export const newSessionResource = joi
  .object<NewSessionResource>({
    session_token: joi.string().required().description('Value of the cookie `session`.'),
    ...session,
  })
  .id('SessionWithToken')
