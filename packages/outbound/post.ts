import { Client, type Dispatcher } from 'undici'
import { settledOrAborted } from '@sluice/runtime/settled-or-aborted'
import { describeFailure, OutboundFailure } from './describe-failure.ts'
import { guardedConnect, type GuardOptions } from './guarded-connect.ts'
import type { AttemptResult, PostRequest } from './outbound.ts'
import { parseRetryAfter } from './retry-after.ts'
import { parseTarget } from './target-url.ts'

export interface PostOptions extends GuardOptions {
  timeoutMs: number
  /** Returns Unix ms, for dates in `Retry-After`. */
  now: () => number
}

/** Maximum number of bytes of a response's body that are read and kept. */
const responseBytesMax = 4_096
/** If a receiver sends more informational responses (1xx) than this, the connection is closed. */
const informationalMax = 20
const ignore = (): void => undefined

/** The state of an attempt while it runs. */
interface Progress {
  status: number | null
  retryAfterMs: number | null
  chunks: Uint8Array[]
  bytes: number
}

/** Sends one POST over its own connection, which is closed afterwards. See Outbound.post. */
export async function post(request: PostRequest, options: PostOptions, signal: AbortSignal): Promise<AttemptResult> {
  signal.throwIfAborted()
  const startedAt = performance.now()
  const progress: Progress = { status: null, retryAfterMs: null, chunks: [], bytes: 0 }
  const failure = await runInTime(request, { ...options, progress }, signal)
  return {
    succeeded: failure === undefined,
    status: progress.status,
    latencyMs: Math.round(performance.now() - startedAt),
    response: progress.status === null ? null : textOf(progress.chunks),
    error: failure === undefined ? null : describeFailure(failure),
    retryAfterMs: failure === undefined ? null : progress.retryAfterMs,
  }
}

/** Resolves to the reason of a failure, or undefined after a success. Rejects only with the reason of `signal`. */
async function runInTime(
  request: PostRequest,
  options: PostOptions & { progress: Progress },
  signal: AbortSignal,
): Promise<unknown> {
  const end = new AbortController()
  const timer = setTimeout(() => end.abort(timeoutError(options.progress, options.timeoutMs)), options.timeoutMs)
  const either = AbortSignal.any([signal, end.signal])
  try {
    await settledOrAborted(send(request, options, either), either)
    return undefined
  } catch (error) {
    signal.throwIfAborted()
    return either.aborted ? either.reason : error
  } finally {
    clearTimeout(timer)
    // Ends everything that undici may still do with the connection.
    end.abort()
  }
}

function timeoutError({ status }: Progress, timeoutMs: number): OutboundFailure {
  const limit = `within ${timeoutMs / 1_000} s`
  return new OutboundFailure(status === null ? `no response ${limit}` : `the response was not complete ${limit}`)
}

async function send(
  { url: text, headers, body }: PostRequest,
  { progress, now, ...guard }: PostOptions & { progress: Progress },
  signal: AbortSignal,
): Promise<void> {
  const { url } = parseTarget(text)
  // No other timer than that of the attempt is used. `pipelining: 0` asks the receiver to close the connection
  // afterwards.
  const client = new Client(url.origin, {
    connect: guardedConnect(guard, signal),
    pipelining: 0,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  let informational = 0
  const onInfo = (): void => {
    if (++informational > informationalMax)
      void client.destroy(new OutboundFailure('the receiver sends informational responses without end'))
  }
  signal.addEventListener('abort', () => void client.destroy().catch(ignore), { once: true })
  try {
    const response = await client.request({
      method: 'POST',
      path: url.pathname + url.search,
      headers: { 'user-agent': 'Sluice', ...headers },
      body,
      onInfo,
    })
    progress.status = response.statusCode
    progress.retryAfterMs = parseRetryAfter(firstOf(response.headers['retry-after']), now())
    await readHead(response.body, progress)
    requireSuccess(response.statusCode)
  } finally {
    void client.destroy().catch(ignore)
  }
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header
}

async function readHead(body: Dispatcher.ResponseData['body'], progress: Progress): Promise<void> {
  body.on('error', ignore)
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    progress.chunks.push(chunk)
    progress.bytes += chunk.length
    if (progress.bytes >= responseBytesMax) return
  }
}

function requireSuccess(status: number): void {
  if (status >= 200 && status < 300) return
  if (status >= 300 && status < 400) throw new OutboundFailure('redirects are not followed')
  throw new OutboundFailure(`the receiver answered with status ${status}`)
}

/** Decodes as UTF-8 and drops a character that was cut. NUL is replaced, because Postgres can't store it. */
function textOf(chunks: readonly Uint8Array[]): string {
  const head = Buffer.concat(chunks).subarray(0, responseBytesMax)
  return new TextDecoder().decode(head, { stream: true }).replaceAll('\0', '\uFFFD')
}
