import type { BatchResult } from '@sluice/contracts/batch-result'
import { eventLimits } from '@sluice/contracts/event-limits'
import { isJsonObject } from '@sluice/runtime/json-object'
import { parseJson } from '@sluice/runtime/parse-json'
import { type Answer, readAnswer } from '@sluice/sdk-core/read-answer'
import { type Answer as Response, type Client, Refusal } from './client.ts'
import { missingFields, withMembers } from './complete-event.ts'
import type { Context } from './context.ts'
import { Failure, messageOf, usageFailure } from './failure.ts'
import { countOf, formatCount } from './output/format.ts'
import { safeText } from './output/safe-text.ts'
import { readLines } from './read-lines.ts'

interface PendingEvent {
  line: number
  json: string
  id: unknown
  timestamp: unknown
}

type BatchResponse = Response<BatchResult> | Refusal

/** Every error of a batch of this size is listed. */
const batchEvents = eventLimits.listedErrorsMax
const batchBytes = 4 * 1024 * 1024
const waitMsMax = 1_000
/**
 * Time after the first signal for which input is read. Ctrl-C also ends the program before the pipe, which may still
 * write.
 */
const inputMsMax = 1_000

export interface SendLinesOptions {
  context: Context
  client: Client
  /** The site of the events that name none. */
  siteId: string | undefined
  onStored: (id: unknown, timestamp: unknown) => void
}

/**
 * Sends the events of standard input, one a line. An event is sent at most a second after it was read, or after the
 * previous batch. Waits while the key's limit is reached. Each event gets its id and timestamp before its first
 * attempt, so that a repetition stores nothing twice. Lines that can't be stored are reported on standard error, and
 * the call ends with a Failure. After the context's signal, input is read for at most a second, and what was read is
 * sent; `client` must outlive the signal for that.
 */
export async function sendLines({ context, client, siteId, onStored }: SendLinesOptions): Promise<void> {
  const { terminal, input, signal } = context
  let [seen, stored, refused] = [0, 0, 0]
  let pending: PendingEvent[] = []
  let bytes = 0
  let sending = Promise.resolve()
  let isSending = false
  let failure: unknown

  const refuse = (line: number, reason: string): void => {
    refused++
    terminal.note(`Line ${line}: ${safeText(reason)}`)
  }
  const store = async (events: readonly PendingEvent[]): Promise<void> => {
    const errors = await storeBatch(client, events)
    for (const event of events) {
      const error = errors.get(event)
      if (error === undefined) {
        stored++
        onStored(event.id, event.timestamp)
      } else refuse(event.line, error)
    }
    await terminal.drained()
  }
  const flush = (): Promise<void> => {
    const events = pending
    pending = []
    bytes = 0
    if (events.length > 0) {
      isSending = true
      sending = sending
        .then(() => store(events))
        .catch((error: unknown) => {
          failure ??= error
          input.destroy()
        })
        .finally(() => {
          isSending = false
        })
    }
    return sending
  }
  // While a batch is sent, further events form the next one. When that is full, it is awaited, so that no more are
  // held.
  const timer = setInterval(() => {
    if (!isSending) void flush()
  }, waitMsMax)
  const cut = new AbortController()
  const cutInput = (): void => {
    cut.abort()
    input.destroy()
  }
  signal.addEventListener('abort', () => setTimeout(cutInput, inputMsMax).unref(), { once: true })
  try {
    for await (const line of readLines(input, eventLimits.eventBytesMax)) {
      if (failure !== undefined) break
      if (line.text?.trim() === '') continue
      seen++
      const event = line.text === undefined ? line.error : complete(line.text, siteId)
      if (typeof event === 'string') {
        refuse(line.number, event)
        continue
      }
      pending.push({ line: line.number, ...event })
      bytes += event.json.length
      if (pending.length >= batchEvents || bytes >= batchBytes) await flush()
    }
  } catch (error) {
    // A failed request ends the input; that failure is the one to report.
    if (!cut.signal.aborted) failure ??= error
  } finally {
    clearInterval(timer)
  }
  await (failure === undefined ? flush() : sending)
  if (cut.signal.aborted || failure !== undefined) {
    terminal.note(`Read ${countOf(seen, 'event')} and stored ${formatCount(stored)}.`)
    if (signal.aborted) throw new Failure('ended by a signal')
  }
  if (failure !== undefined) throw failure instanceof Error ? failure : new Failure(messageOf(failure))
  if (seen === 0) throw usageFailure('Standard input holds no events: pipe in one JSON object a line.')
  if (refused > 0)
    throw new Failure(
      `${formatCount(refused)} of ${countOf(seen, 'event')} could not be stored: the reasons are above.`,
    )
  terminal.note(`Stored ${countOf(seen, 'event')}.`)
}

/** Sends a batch. Resolves with the reasons of the events that were refused. */
async function storeBatch(client: Client, events: readonly PendingEvent[]): Promise<Map<PendingEvent, string>> {
  const response = await post(client, events)
  const step = readAnswer(answerOf(response), events.length, true)
  switch (step.next) {
    case 'done': {
      const reasons = new Map(step.refused)
      const refused = events.flatMap((event, at) => {
        const reason = reasons.get(at)
        return reason === undefined ? [] : [[event, reason] as const]
      })
      const rest = step.more
        ? await storeBatch(
            client,
            events.filter((_event, at) => !reasons.has(at)),
          )
        : []
      return new Map([...refused, ...rest])
    }
    case 'split': {
      const half = Math.ceil(events.length / 2)
      const first = await storeBatch(client, events.slice(0, half))
      return new Map([...first, ...(await storeBatch(client, events.slice(half)))])
    }
    // The client has sent the request again for as long as it may.
    case 'repeat':
    case 'stop':
      throw response instanceof Refusal ? response : new Failure(step.error)
  }
}

async function post(client: Client, events: readonly PendingEvent[]): Promise<BatchResponse> {
  const body = events.map(({ json }) => json).join('\n')
  try {
    return await client.request<BatchResult>('POST', '/collect/batch', {
      body: () => body,
      headers: { 'Content-Type': 'application/x-ndjson' },
    })
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** A response as the SDKs read it. It has no headers, because the client obeys them itself. */
function answerOf(response: BatchResponse): Answer {
  return {
    status: response.status,
    body: {
      timestamp: response.timestamp,
      // packages/contracts declares the data of a refused batch.
      data: response.data as Partial<BatchResult>,
      ...(response instanceof Refusal && { error: response.message }),
    },
  }
}

/** The event of a line with the fields that it lacks, or the reason why the line is no event. */
function complete(text: string, siteId: string | undefined): Omit<PendingEvent, 'line'> | string {
  let event: unknown
  try {
    event = parseJson(text)
  } catch {
    return 'is not JSON'
  }
  if (!isJsonObject(event)) return 'is not a JSON object'
  const added = missingFields(event, siteId)
  return {
    json: withMembers(text.trim(), added),
    id: added.event_id ?? event.event_id,
    timestamp: added.timestamp ?? event.timestamp,
  }
}
