import joi from 'joi'
import {
  type AcceptedErasure,
  type CreateErasureBody,
  type ErasureResource,
  erasureSelectors,
  erasureStatuses,
} from '@sluice/contracts/erasures'
import { eventLimits } from '@sluice/contracts/event-limits'
import { importLimits } from '@sluice/contracts/imports'
import { enumText, text, time } from '@sluice/runtime/schemas'
import { timeOrNull } from './times.ts'

const oneSelector = `must have exactly one of the fields ${erasureSelectors.join(', ')}`

export const createErasureBody = joi
  .object<CreateErasureBody>({
    // The id of an imported user may be longer than the user id of an event.
    user_id: text(importLimits.userFieldLengthMax)
      .description('Erases the events of this user, and the imported record of the user.')
      .example('user-1'),
    session_id: text(eventLimits.sessionIdLengthMax).description('Erases the events of this session.'),
    event_id: text(eventLimits.eventIdLengthMax).description('Erases the event with this id.'),
    before: time
      .min(eventLimits.timestampMsMin)
      .description('Erases the events whose `timestamp` is earlier than this time, Unix ms.'),
  })
  .xor(...erasureSelectors)
  .meta({ minProperties: 1 })
  .description('Exactly one of the fields.')
  .messages({ 'object.missing': oneSelector, 'object.xor': oneSelector })

const erasureId = joi.string().required().example('era_01JABCDEFGHJKMNPQRSTVWXYZ0')

/** `data` of the answers that accept an erasure. */
export const acceptedErasure = joi
  .object<AcceptedErasure>({ erasure_id: erasureId, status: joi.string().valid('queued').required() })
  .id('AcceptedErasure')

export const erasureResource = joi
  .object<ErasureResource>({
    erasure_id: erasureId,
    site_id: joi.string().required(),
    kind: enumText([...erasureSelectors, 'site'])
      .required()
      .description('The field of the request; `site` if the site was deleted. The value of the field is not stored.'),
    status: enumText(erasureStatuses).required().description('`completed`: the erased data can’t be read any more.'),
    count: joi
      .number()
      .integer()
      .allow(null)
      .required()
      .description('Number of stored events that are erased. Null: they are not counted yet.'),
    requested_at: joi
      .number()
      .integer()
      .required()
      .description('Time of the request, Unix ms. Data that was accepted until then is erased.'),
    completed_at: timeOrNull,
  })
  .id('Erasure')
