import { signal } from '@preact/signals'
import { underWayError } from '@sluice/contracts/idempotency'
import type { StatsBatchResult } from '@sluice/contracts/stats-batch'
import { parseWithLongNumbers } from '../format/json.ts'
import { messages } from '../messages/en.ts'
import { ApiError, asApiError, failureOf } from './error.ts'
import { type ApiRequest, requestOf } from './request.ts'
import type { Data, Input, OperationId } from './wire.ts'

/** Whether the server refuses the session (401): the sign-in page is shown, and the address stays. */
export const isSignedOut = signal(false)
/** Whether the reader has signed out on this page, so that the end of the session needs no explanation. */
export const isOwnSignOut = signal(false)

let skewMs = 0

/** The server's clock, Unix ms: this machine's may be days off. */
export const serverNow = (): number => Date.now() + skewMs

/** The server's time at a time of this computer, both Unix ms. */
export const serverTimeAt = (ms: number): number => ms + skewMs

interface Envelope {
  success: boolean
  timestamp: number
  data?: unknown
  error?: string
}

const isEnvelope = (value: unknown): value is Envelope =>
  typeof value === 'object' && value !== null && 'success' in value && 'timestamp' in value

/** Seconds or a date, as milliseconds from now. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined
}

interface SendOptions {
  signal?: AbortSignal | undefined
  accept?: string
  /** With the key of an earlier request the server repeats its answer, rather than make the change again. */
  idempotencyKey?: string | undefined
}

/**
 * Sends a request with the session's cookie, and reads the answer by `read`. Throws an `ApiError` with a sentence for
 * the user for no answer, or half of one; what is aborted throws the signal's reason.
 */
async function send<T>(
  { method, path, body }: ApiRequest,
  { signal, accept, idempotencyKey }: SendOptions,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const isForm = body instanceof FormData
  const headers = {
    ...(body === undefined || isForm ? {} : { 'Content-Type': 'application/json' }),
    ...(accept === undefined ? {} : { Accept: accept }),
    ...(idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }),
  }
  try {
    const response = await fetch(path, {
      method,
      credentials: 'same-origin',
      headers,
      ...(signal === undefined ? {} : { signal }),
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    })
    return await read(response)
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new ApiError(0, messages.errors.unreachable)
  }
}

/** An answer as `fetch` and XMLHttpRequest give it. */
interface Answer {
  status: number
  text: string
  header: (name: string) => string | null
}

async function readText(response: Response): Promise<Answer> {
  return { status: response.status, text: await response.text(), header: (name) => response.headers.get(name) }
}

/** The `data` of an answer. Throws an `ApiError` for failures, and for answers that are not the interface's. */
function dataOf({ status, text, header }: Answer, parse: (text: string) => unknown = JSON.parse): unknown {
  const requestId = header('X-Request-Id') ?? undefined
  const wait = retryAfterMs(header('Retry-After'))
  const envelope = parsed(text, parse)
  if (envelope === undefined) {
    throw new ApiError(status, messages.errors.notSluice(status), { requestId, retryAfterMs: wait })
  }
  // A repeated answer has the time of the first one.
  if (header('Idempotency-Replayed') === null) skewMs = envelope.timestamp - Date.now()
  if (status >= 200 && status < 300 && envelope.success) {
    return envelope.data
  }
  const isUnderWay = status === 409 && envelope.error === underWayError
  throw new ApiError(status, isUnderWay ? messages.errors.underWay : (envelope.error ?? messages.errors.unknown), {
    requestId,
    retryAfterMs: wait,
    data: envelope.data,
    isUnderWay,
  })
}

/**
 * Sends a form by XMLHttpRequest, which, unlike `fetch`, tells how much of it is sent: `onProgress` gets the share,
 * 0–1. Resolves with the answer's `data`; throws an `ApiError`, when it is aborted too.
 */
export function upload(
  { method, path }: ApiRequest,
  form: FormData,
  { onProgress, signal }: { onProgress: (share: number) => void; signal: AbortSignal },
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open(method, path)
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0))
    request.addEventListener('load', () => {
      const { status, responseText: text } = request
      if (status === 401) isSignedOut.value = true
      try {
        resolve(dataOf({ status, text, header: (name) => request.getResponseHeader(name) }))
      } catch (error) {
        reject(asApiError(error))
      }
    })
    request.addEventListener('error', () => reject(new ApiError(0, messages.errors.unreachable)))
    request.addEventListener('abort', () => reject(new ApiError(0, messages.errors.unknown)))
    signal.addEventListener('abort', () => request.abort())
    request.send(form)
  })
}

function parsed(text: string, parse: (text: string) => unknown): Envelope | undefined {
  try {
    const value = parse(text)
    return isEnvelope(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Operations that answer with stored events, whose properties may be numbers that a double can't hold. */
const answersEvents: readonly OperationId[] = ['events', 'live']

/** The result of a batch's only query; throws its failure. */
function onlyResult({ results: [entry] }: StatsBatchResult): unknown {
  if (entry?.success === false) throw failureOf(entry)
  return entry?.data
}

/**
 * Calls an operation of the OpenAPI document by its id; `send` and `dataOf` say what it throws. A 401 signs out, except
 * that of a failed sign-in.
 */
export async function call<Id extends OperationId>(
  id: Id,
  input: Input<Id>,
  signal?: AbortSignal,
  idempotencyKey?: string,
): Promise<Data<Id>> {
  try {
    const parse = answersEvents.includes(id) ? parseWithLongNumbers : JSON.parse
    const request = requestOf(id, input)
    const data = dataOf(await send(request, { signal, idempotencyKey }, readText), parse)
    const isBatch = id === 'stats' && request.method === 'POST'
    return (isBatch ? onlyResult(data as StatsBatchResult) : data) as Data<Id>
  } catch (error) {
    if (error instanceof ApiError && error.status === 401 && id !== 'createSession') isSignedOut.value = true
    throw error
  }
}

/**
 * Resolves if the browser has a session, maybe that of another tab, and throws as `call` does otherwise. Its 401 leaves
 * `isSignedOut` as it is.
 */
export async function checkSession(signal: AbortSignal): Promise<void> {
  dataOf(await send(requestOf('getSession', {}), { signal }, readText))
}

/** The answer of an operation as CSV, which may be longer than a text can be (512 MB). Throws as `call` does. */
export async function callCsv<Id extends OperationId>(id: Id, input: Input<Id>): Promise<Blob> {
  const answer = await send<Answer | Blob>(requestOf(id, input), { accept: 'text/csv' }, (response) =>
    response.ok ? response.blob() : readText(response),
  )
  if (answer instanceof Blob) return answer
  if (answer.status === 401) isSignedOut.value = true
  // The answer is a failure, which is thrown.
  return dataOf(answer) as never
}
