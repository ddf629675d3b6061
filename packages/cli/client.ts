import { setTimeout as delay } from 'node:timers/promises'
import pRetry from 'p-retry'
import type { SessionResource } from '@sluice/contracts/session'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import {
  type AddressSetting,
  ConnectionFailure,
  connectionFailure,
  isServerAbsent,
  isTransient,
} from './connection-failure.ts'
import { exitCodes, Failure } from './failure.ts'

/** A successful answer of Sluice. */
export interface Answer<T> {
  data: T
  status: number
  headers: Headers
  /** The server's clock, Unix ms. */
  timestamp: number
}

export interface RequestOptions {
  query?: Readonly<Record<string, string | number | boolean | undefined>>
  json?: unknown
  /** Called once for each attempt: a stream can be sent once. */
  body?: () => NonNullable<RequestInit['body']>
  headers?: Readonly<Record<string, string>>
  /** 0: the request may take as long as it takes. */
  timeoutMs?: number
  /**
   * False: the request is sent again only while a limit of the key is reached, because a second one would do more than
   * the first.
   */
  isRepeatable?: boolean
}

/** A refusal of the server, in its words. */
export class Refusal extends Failure {
  readonly status: number
  readonly data: unknown
  /** The server's clock, Unix ms; 0 when a proxy refused the request. */
  readonly timestamp: number
  readonly retryAfterMs: number | undefined

  constructor(
    message: string,
    { status, data, timestamp, retryAfterMs }: Pick<Refusal, 'status' | 'data' | 'timestamp' | 'retryAfterMs'>,
  ) {
    super(message, status === 401 || status === 403 ? exitCodes.authentication : exitCodes.failure)
    this.status = status
    this.data = data
    this.timestamp = timestamp
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * How long a request is sent again: `none` never; `some` a few times, while an answer is likely; `long` for ten
 * minutes, also while nothing listens.
 */
export type RetryPolicy = 'none' | 'some' | 'long'

export interface ClientOptions {
  url: string
  /** The variable that names `url`, for the messages of failures. */
  setting: AddressSetting
  key: string | undefined
  signal: AbortSignal
  /** Called before a request is sent again, with the reason and the wait in ms. */
  onRetry: (reason: string, waitMs: number) => void
  retries: RetryPolicy
}

/** Sends requests to Sluice with one key. */
export interface Client {
  readonly url: string
  /**
   * Sends a request and resolves with its successful answer. Throws a Refusal, or a Failure when there is no answer.
   */
  request<T>(method: string, path: string, options?: RequestOptions): Promise<Answer<T>>
  /** The rights of the key, and the address that events are sent to. */
  session(): Promise<SessionResource>
}

interface Envelope {
  success: boolean
  timestamp: number
  error?: unknown
  data?: unknown
}

const defaultTimeoutMs = 30_000
/**
 * Longer than an analysis may take, including its wait for a turn. A request that is given up earlier would be sent
 * again and start the analysis again.
 */
export const analysisTimeoutMs = 70_000
const waitMsMax = { none: 0, some: 90_000, long: 10 * 60_000 } as const
const retriesMax = { none: 0, some: 4, long: Infinity } as const

/** Opens a client for one service of Sluice with one key. It sends a request again while that may help. */
export function openClient({ url, setting, key, signal, onRetry, retries }: ClientOptions): Client {
  const send = async <T>(method: string, path: string, options: RequestOptions): Promise<Answer<T>> => {
    const { query = {}, json, body, headers, timeoutMs = defaultTimeoutMs } = options
    const target = new URL(url + path)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) target.searchParams.set(name, String(value))
    }
    const timeout = timeoutMs === 0 ? [] : [AbortSignal.timeout(timeoutMs)]
    const content = json === undefined ? body?.() : JSON.stringify(json)
    let response: Response
    let text: string
    try {
      response = await fetch(target, {
        method,
        headers: {
          ...(key !== undefined && { Authorization: `Bearer ${key}` }),
          ...(json !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(content !== undefined && { body: content, duplex: 'half' }),
        // A redirect would turn a POST into a GET, or carry the key elsewhere.
        redirect: 'manual',
        signal: AbortSignal.any([signal, ...timeout]),
      })
      text = await response.text()
    } catch (error) {
      signal.throwIfAborted()
      throw connectionFailure(error, url, setting)
    }
    const envelope = parseEnvelope(text)
    if (!envelope) throw response.status === 413 ? tooLargeForProxy(url, path) : notSluice(url, response, setting)
    if (!response.ok) throw refusal(envelope, response, { url, method, path })
    // packages/contracts declares the data of each operation.
    return {
      data: envelope.data as T,
      status: response.status,
      headers: response.headers,
      timestamp: envelope.timestamp,
    }
  }

  const request = async <T>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> => {
    const { isRepeatable = true } = options
    const mayRepeat = (error: Error): boolean =>
      isLimited(error) ||
      (isRepeatable && (isServerFailure(error) || isTransient(error) || (retries === 'long' && isServerAbsent(error))))
    // The time begins with the first failure, because an upload may take longer than that.
    let until: number | undefined
    return pRetry(() => send<T>(method, path, options), {
      retries: retriesMax[retries],
      minTimeout: 300,
      maxTimeout: 10_000,
      randomize: true,
      signal,
      shouldRetry: ({ error }) => mayRepeat(error) && Date.now() < (until ?? Infinity),
      onFailedAttempt: async ({ error, retryDelay }) => {
        until ??= Date.now() + waitMsMax[retries]
        if (!mayRepeat(error) || retryDelay === 0 || Date.now() >= until) return
        const asked = error instanceof Refusal ? error.retryAfterMs : undefined
        onRetry(error.message, (asked ?? 0) + retryDelay)
        if (asked) await delay(Math.min(asked, until - Date.now()), undefined, { signal })
      },
    })
  }
  return { url, request, session: async () => (await request<SessionResource>('GET', '/api/v1/session')).data }
}

/** Whether a limit of the key is reached. Such a request had no effect and cost nothing. */
function isLimited(error: unknown): boolean {
  return error instanceof Refusal && error.status === 429
}

/** Whether the server failed, so that it may have done what was requested, or a part of it. */
export function isServerFailure(error: unknown): boolean {
  return error instanceof Refusal && error.status >= 500
}

/** The envelope of Sluice's answer, with every digit of its numbers; undefined for any other text. */
export function parseEnvelope(text: string): Envelope | undefined {
  let value: unknown
  try {
    value = parseExactly(text)
  } catch {
    return undefined
  }
  return isEnvelope(value) ? value : undefined
}

function isEnvelope(value: unknown): value is Envelope {
  return (
    typeof value === 'object' &&
    value !== null &&
    'success' in value &&
    typeof value.success === 'boolean' &&
    'timestamp' in value &&
    typeof value.timestamp === 'number'
  )
}

/**
 * The failure when another program than Sluice, or a proxy in front of it, has answered. `setting` names the address
 * `url`.
 */
export function notSluice(url: string, response: Response, setting: AddressSetting): Failure {
  const location = response.headers.get('Location')
  if (location !== null) {
    return new Failure(`${url} redirects to ${location}: set ${setting} to the address at which Sluice itself answers.`)
  }
  const type = response.headers.get('Content-Type') ?? 'no content type'
  // A proxy answers these while Sluice is unavailable, which may be over a moment later.
  if ([502, 503, 504].includes(response.status)) {
    return new ConnectionFailure(
      `A proxy at ${url} answers ${response.status} instead of Sluice: see whether Sluice runs behind it.`,
      'NO_ANSWER_BEHIND_PROXY',
    )
  }
  const answer = `(it answers ${response.status}, ${type})`
  if (isTooLong(response.status)) {
    return new Failure(
      `A proxy at ${url} refuses the request as too long (${response.status}): ${shorten}, or raise the limit of the proxy.`,
    )
  }
  if (response.status >= 400) {
    return new Failure(
      `${url} is not Sluice, or a proxy before it refuses the request ${answer}: see the log of the proxy, or set ${setting} to the address of Sluice.`,
    )
  }
  return new Failure(`${url} is not Sluice ${answer}: set ${setting} to its address.`)
}

const shorten = 'shorten the options of the command, such as --filter'

/** Whether a status says that the address or the headers of a request are too long. Options are part of the address. */
function isTooLong(status: number): boolean {
  return status === 414 || status === 431
}

/** A 413 of Sluice itself has its envelope, which names the limit that is exceeded. */
function tooLargeForProxy(url: string, path: string): Refusal {
  const message = path.startsWith('/api/v1/imports')
    ? 'the upload as too large: raise its limit of request bodies, or compress the file by gzip if it is not.'
    : 'the request as too large: raise its limit of request bodies.'
  return new Refusal(`A proxy at ${url} refuses ${message}`, {
    status: 413,
    data: undefined,
    timestamp: 0,
    retryAfterMs: undefined,
  })
}

function refusal(
  envelope: Envelope,
  response: Response,
  { url, method, path }: { url: string; method: string; path: string },
): Refusal {
  const { status, headers } = response
  const seconds = Number(headers.get('Retry-After') ?? Number.NaN)
  const details = {
    status,
    data: envelope.data,
    timestamp: envelope.timestamp,
    retryAfterMs: Number.isFinite(seconds) ? seconds * 1_000 : undefined,
  }
  const said = typeof envelope.error === 'string' ? envelope.error : 'no reason given'
  const isForEvents = path.startsWith('/collect')
  const registersSites = isForEvents || (method === 'POST' && path.startsWith('/api/v1/imports'))
  if (said === 'Site not found' && registersSites) {
    return new Refusal(
      'Site not found: only administrators register sites on this server, by POST /api/v1/sites.',
      details,
    )
  }
  if (said === 'Not found') {
    return new Refusal(
      isForEvents
        ? `${url} takes no events: set SLUICE_COLLECT_URL to the address of the gateway, here or on the query service.`
        : `${url} answers no queries: set SLUICE_URL to the address of the query service, and SLUICE_COLLECT_URL to that of the gateway.`,
      details,
    )
  }
  return new Refusal(advice(said, status, url, headers.get('X-Request-Id')), details)
}

/** The server's words, with what to do. */
function advice(said: string, status: number, url: string, requestId: string | null): string {
  if (status === 401) {
    return `${url} does not accept the API key: set SLUICE_API_KEY to a valid one, or run "sluice login".`
  }
  if (isTooLong(status)) return `${said}: ${shorten}.`
  const scope = /^Insufficient scope: requires (\S+)$/.exec(said)?.[1]
  if (scope !== undefined) return `The API key lacks the scope ${scope}: use a key that has it.`
  if (said === 'Key is not allowed for this site') {
    return 'The API key is bound to other sites: use a key of this site, or name one of its sites with --site.'
  }
  if (said === 'Site not found') return 'Site not found: it has no events yet, or the API key may not read it.'
  if (said === 'Key not found') return 'Key not found: "sluice keys list --all" shows the ids of keys.'
  if (said === 'Import not found') return 'Import not found: check the job_id, or use a key that may read its site.'
  if (status >= 500)
    return `Sluice failed (${status}: ${said}); its log names the cause, request ${requestId ?? 'unknown'}.`
  return said
}
