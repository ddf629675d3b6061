import { eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import { parseJson } from '@sluice/http/json-body'
import { AppError, invalidField, invalidFormat, missingField, tooLarge } from '@sluice/runtime/errors'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { type BatchEvents, type BatchItem, requireOneList } from '../collect-batch/read-events.ts'
import { parseItemExactly, splitList } from '../collect-batch/split-list.ts'
import { hasRoundedId, mapMessage } from './map-message.ts'

/**
 * The messages of a batch of Segment's API, `{"batch": [...], "context"?: {...}}`, as events of a site. Members of the
 * batch's context are added to each message whose context lacks them; the other fields are about the request and are
 * ignored. Throws AppError 400 if the list is missing, empty or too long, and 413 if the context is too large for so
 * many messages: it is mapped and validated with each.
 */
export function readMessages(bytes: Buffer, siteId: string): BatchEvents {
  const body = bodyOf(parseJson(bytes))
  requireOneList('batch', bytes, () => splitList(bytes, Infinity))
  if (bytesOfContext(body.context) * body.messages.length > eventLimits.batchBytesMax) {
    throw tooLarge(`The context, once for each message, is larger than ${eventLimits.batchBytesMax} bytes`)
  }
  let exactMessage: ((index: number) => unknown) | undefined
  const parseAgain = (index: number): unknown => {
    exactMessage ??= exactMessages(bytes)
    return exactMessage(index)
  }
  return { count: body.messages.length, items: mapMessages(body, siteId, parseAgain) }
}

interface BatchBody {
  messages: readonly unknown[]
  context: JsonObject
}

function bodyOf(body: unknown): BatchBody {
  if (!isJsonObject(body)) throw invalidFormat('body must be a JSON object with a list "batch"')
  const { batch, context } = body
  if (batch === undefined || batch === null) throw missingField('batch')
  if (!Array.isArray(batch)) throw invalidField('batch', 'must be a list')
  if (batch.length === 0) throw invalidField('batch', 'must hold at least 1 message')
  if (batch.length > eventLimits.batchEventsMax) {
    throw invalidField('batch', `must hold at most ${eventLimits.batchEventsMax} messages`)
  }
  if (context !== undefined && context !== null && !isJsonObject(context)) {
    throw invalidField('context', 'must be an object')
  }
  return { messages: batch, context: context ?? {} }
}

/** `parseAgain` parses a message with the digits of its integers. */
function* mapMessages(body: BatchBody, siteId: string, parseAgain: (index: number) => unknown): Generator<BatchItem> {
  for (const [index, sent] of body.messages.entries()) {
    const message = withContext(sent, body.context)
    try {
      const { event, explain } = mapMessage(hasRoundedId(message) ? parseAgain(index) : message, siteId)
      yield { value: event, parseAgain: () => mapMessage(parseAgain(index), siteId).event, isLine: false, explain }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      yield { value: { event_id: isJsonObject(message) ? message.messageId : undefined }, error }
    }
  }
}

/** Parses messages of a valid batch again, each with the batch's context and the digits of its integers. */
function exactMessages(bytes: Buffer): (index: number) => unknown {
  const split = splitList(bytes, Infinity)
  const { messages, context } = bodyOf(parseJson(Buffer.from(split.skeleton), parseExactly))
  const exactContext = Object.fromEntries(
    Object.entries(context).map(([name, value]) => [name, parseItemExactly(value, split)]),
  )
  return (index) => withContext(parseItemExactly(messages[index], split), exactContext)
}

function bytesOfContext(context: JsonObject): number {
  try {
    return Buffer.byteLength(JSON.stringify(context))
  } catch (error) {
    // Unlike JSON.parse, JSON.stringify recurses.
    if (!(error instanceof RangeError)) throw error
    throw invalidField('context', `is nested deeper than ${propertyLimits.depthMax} levels`)
  }
}

function withContext(message: unknown, context: JsonObject): unknown {
  if (!isJsonObject(message) || Object.keys(context).length === 0) return message
  const own = message.context ?? {}
  // A context that is no object is refused by the mapping.
  return isJsonObject(own) ? { ...message, context: { ...context, ...own } } : message
}
