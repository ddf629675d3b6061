import { eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import { decodeBody, parseJsonBody, parseJsonText } from '@sluice/http/json-body'
import { AppError, invalidField, invalidFormat, missingField, tooLarge } from '@sluice/runtime/errors'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { hasRoundedNumber } from '@sluice/runtime/rounded-numbers'
import { type BatchEvents, type BatchItem, requireOneList } from '../collect-batch/read-events.ts'
import { parseItemExactly, splitList } from '../collect-batch/split-list.ts'
import { mapMessage } from './map-message.ts'

/**
 * The messages of a batch of Segment's API, `{"batch": [...], "context"?: {...}}`, as events of a site. Members of the
 * batch's context are added to each message whose context lacks them; the other fields are about the request and are
 * ignored. Throws AppError 400 if the list is missing, empty or too long, and 413 if the context is too large for so
 * many messages: it is mapped and validated with each.
 */
export function readMessages(bytes: Buffer, siteId: string): BatchEvents {
  const text = decodeBody(bytes)
  const { messages, context: plainContext } = bodyOf(parseJsonText(text))
  requireOneList('batch', bytes)
  const { messageAt, context } = hasRoundedNumber(text)
    ? readExactly(bytes)
    : { messageAt: (index: number) => messages[index], context: plainContext }
  if (bytesOfContext(context) * messages.length > eventLimits.batchBytesMax) {
    throw tooLarge(`The context, once for each message, is larger than ${eventLimits.batchBytesMax} bytes`)
  }
  const readMessage = (index: number): unknown => withContext(messageAt(index), context)
  return { count: messages.length, items: mapMessages(messages, siteId, readMessage) }
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
    throw invalidField('batch', `must contain at most ${eventLimits.batchEventsMax} messages`)
  }
  if (context !== undefined && context !== null && !isJsonObject(context)) {
    throw invalidField('context', 'must be an object')
  }
  return { messages: batch, context: context ?? {} }
}

/** `readMessage` returns a message with the context and all digits of its numbers, which `sent` may lack. */
function* mapMessages(
  sent: readonly unknown[],
  siteId: string,
  readMessage: (index: number) => unknown,
): Generator<BatchItem> {
  for (const [index, message] of sent.entries()) {
    try {
      const { event, explain } = mapMessage(readMessage(index), siteId)
      yield { value: event, isLine: false, explain }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      yield { value: { event_id: isJsonObject(message) ? message.messageId : undefined }, error }
    }
  }
}

/** The messages and the context of a valid batch with all digits of their numbers. */
function readExactly(bytes: Buffer): { messageAt: (index: number) => unknown; context: JsonObject } {
  const split = splitList(bytes, Infinity)
  const { messages, context } = bodyOf(parseJsonBody(Buffer.from(split.skeleton), parseExactly))
  return {
    messageAt: (index) => parseItemExactly(messages[index], split),
    context: Object.fromEntries(Object.entries(context).map(([name, value]) => [name, parseItemExactly(value, split)])),
  }
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
