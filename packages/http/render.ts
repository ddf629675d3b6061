import type { ServerResponse } from 'node:http'
import { SluiceError } from '@sluice/contracts/errors'
import type { Answer } from './route.ts'

/** Sends an answer in its envelope: `{success: true, timestamp, data?}`. */
export function renderAnswer(response: ServerResponse, requestId: string, { status, data, headers }: Answer): void {
  send(response, status, { 'X-Request-Id': requestId, ...headers }, { success: true, timestamp: Date.now(), data })
}

/**
 * Sends a failure in its envelope: `{success: false, error, timestamp, data?}`. What is not a SluiceError is a bare
 * 500. Returns the error to log with its cause when the failure is ours, else undefined.
 */
export function renderError(response: ServerResponse, requestId: string, error: unknown): unknown {
  const known =
    error instanceof SluiceError ? error : new SluiceError(500, { message: 'Internal server error', cause: error })
  if (response.headersSent) {
    response.destroy()
    return error
  }
  const retryAfter = known.retryAfterSeconds === undefined ? {} : { 'Retry-After': String(known.retryAfterSeconds) }
  send(
    response,
    known.status,
    { 'X-Request-Id': requestId, ...known.headers, ...retryAfter },
    {
      success: false,
      error: known.status === 500 ? 'Internal server error' : known.message,
      timestamp: Date.now(),
      data: known.data,
    },
  )
  return known.status >= 500 ? error : undefined
}

function send(response: ServerResponse, status: number, headers: Readonly<Record<string, string>>, body: object): void {
  // As text: node joins it with the head to one write. All headers at once: those set before cost a second table.
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  })
  response.end(text)
}
