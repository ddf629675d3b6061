import type { ServerResponse } from 'node:http'
import { SluiceError } from '@sluice/contracts/errors'
import type { Headers } from './headers.ts'
import type { Answer } from './route.ts'

/** Sends an answer in its envelope: `{success: true, timestamp, data?}`. `common`: headers that any answer to the request has. */
export function renderAnswer(
  response: ServerResponse,
  common: Headers,
  { status, data, headers, timestamp = Date.now() }: Answer & { timestamp?: number },
): void {
  send(response, status, headers === undefined ? common : { ...common, ...headers }, { success: true, timestamp, data })
}

/**
 * Sends a failure in its envelope: `{success: false, error, timestamp, data?}`. What is not a SluiceError is a bare
 * 500. Returns the error to log with its cause when the failure is ours, else undefined.
 */
export function renderError(response: ServerResponse, common: Headers, error: unknown): unknown {
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
    { ...common, ...known.headers, ...retryAfter },
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
