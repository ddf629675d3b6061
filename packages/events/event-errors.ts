import { textLengthsMax } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import { AppError } from '@sluice/runtime/errors'
import { holdsKey, redacted } from '@sluice/runtime/redact'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'

/** The error of an event over 32 KiB in a batch. For a single event of that size, the request body gets a 413. */
export function eventTooLarge(): AppError {
  return new AppError('too_large', { message: `Event is larger than ${eventLimits.eventBytesMax} bytes` })
}

/**
 * The client's id, which identifies an event in a list of errors. Undefined for values that are not valid ids; an id
 * that contains a key is not shown.
 */
export function eventIdOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('event_id' in value)) return undefined
  const id = value.event_id
  if (typeof id !== 'string' || id === '' || hasMoreCodePoints(id, textLengthsMax.event_id)) return undefined
  return holdsKey(id) ? redacted : id.toWellFormed()
}
