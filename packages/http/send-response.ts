import type { ServerResponse } from 'node:http'
import { statusOf } from '@sluice/api/error-status'
import { AppError } from '@sluice/runtime/errors'
import type { Headers } from './headers.ts'
import { HttpError } from './http-error.ts'
import { discard } from './read-body.ts'
import type { HandlerResult } from './route.ts'

/**
 * A successful response in its envelope: `{success: true, timestamp, data?}`, or the body that the answer has in place of
 * it. `now`: the timestamp (Unix ms), unless the answer has one of its own.
 */
export function responseText({ data, body, timestamp }: HandlerResult & { timestamp?: number }, now: number): string {
  if (body !== undefined) return JSON.stringify(body)
  return JSON.stringify({ success: true, timestamp: timestamp ?? now, data })
}

/** Sends a successful response. `common`: the headers that every response to the request has. */
export function sendResponse(
  response: ServerResponse,
  common: Headers,
  { status, headers }: HandlerResult,
  text: string,
): void {
  send(response, status, headers === undefined ? common : { ...common, ...headers }, text)
}

/**
 * Sends an error in its envelope: `{success: false, error, timestamp, data?}`. An error that is not an AppError becomes
 * a 500 without details. `common`: the headers that every response to the request has; `now`: Unix ms. A response that
 * has begun can't become an error any more: its connection is closed. In Segment's dialect, the body also has `code`,
 * the error code, and `message`, the text of `error`: Segment’s client for Python reads both, and takes a body without
 * them for a network failure, which it retries (docs/decisions/035-segment-intake.md).
 */
export function sendError(
  response: ServerResponse,
  common: Headers,
  error: unknown,
  { now, dialect }: { now: number; dialect?: 'segment' | undefined },
): void {
  const known =
    error instanceof AppError ? error : new AppError('internal', { message: 'Internal server error', cause: error })
  const status = statusOf[known.code]
  if (response.headersSent) {
    response.destroy()
    return
  }
  const own = known instanceof HttpError ? known.headers : {}
  // RFC 9110 requires it. Not Basic, for which browsers would ask their users for a password.
  const challenge = status === 401 ? { 'WWW-Authenticate': 'Bearer realm="Sluice"' } : {}
  const retryAfter = known.retryAfterSeconds === undefined ? {} : { 'Retry-After': String(known.retryAfterSeconds) }
  const message = status === 500 ? 'Internal server error' : known.message
  const text = JSON.stringify({
    success: false,
    error: message,
    ...(dialect === 'segment' && { code: known.code, message }),
    timestamp: now,
    data: known.data,
  })
  send(response, status, { ...common, ...own, ...challenge, ...retryAfter }, text)
}

/** Whether the service is to blame for an error: its status is 5xx, or it is no AppError. */
export function isServerError(error: unknown): boolean {
  return !(error instanceof AppError) || statusOf[error.code] >= 500
}

function send(response: ServerResponse, status: number, headers: Readonly<Record<string, string>>, text: string): void {
  // The body is a string, because Node joins it with the head into one write. All headers are passed to writeHead,
  // because headers that are set one by one are stored in a second table first.
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  })
  const { req: request } = response
  const isConnectionKept = response.shouldKeepAlive && !response.hasHeader('Connection')
  if (request.complete || isConnectionKept) {
    response.end(text)
    return
  }
  // Node closes the connection when the response ends. That would cut off a client that is still sending its body, and
  // the client might never read the response. The cork makes Node write the response now instead of in its next tick;
  // otherwise the memory of the request would stay reserved until the client has sent its body.
  response.cork()
  response.write(text)
  response.uncork()
  discard(request)
  request.once('close', () => response.end())
}
