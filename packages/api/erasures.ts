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
import { text, time } from '@sluice/runtime/schemas'
import { timeOrNull } from './times.ts'

const oneSelector = `must have exactly one of the fields ${erasureSelectors.join(', ')}`

export const createErasureBody = joi
  .object<CreateErasureBody>({
    // The id of an imported user may be longer than the user id of an event.
    user_id: text(importLimits.userFieldLengthMax)
      .description('Events of this user, and its imported record.')
      .example('user-1'),
    session_id: text(eventLimits.sessionIdLengthMax).description('Events of this session.'),
    event_id: text(eventLimits.eventIdLengthMax).description('The event with this id.'),
    before: time.min(eventLimits.timestampMsMin).description('Events whose `timestamp` is earlier, in Unix ms.'),
  })
  .xor(...erasureSelectors)
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
    kind: joi
      .string()
      .valid(...erasureSelectors, 'site')
      .required()
      .description('The field of the request; `site` when the site was deleted. The value itself is not kept.'),
    status: joi
      .string()
      .valid(...erasureStatuses)
      .required()
      .description('`completed` when nothing of it can be read any more.'),
    count: joi
      .number()
      .integer()
      .allow(null)
      .required()
      .description('Events that were stored, and are erased. Null: not counted yet.'),
    requested_at: joi.number().integer().required().description('What was accepted until then is erased.'),
    completed_at: timeOrNull,
  })
  .id('Erasure')
