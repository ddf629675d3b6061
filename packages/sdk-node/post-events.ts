import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Answer } from '@sluice/sdk-core/read-answer'

/** Bodies from this size on are compressed. */
const gzipBytesMin = 1_024

const compress = promisify(gzip)

/**
 * Sends events, given as JSON, in one request. Resolves with status 0 without an answer, or once `end` aborts; never
 * rejects.
 */
export type PostEvents = (events: readonly string[], end: AbortSignal) => Promise<Answer>

/** Creates a function that sends to the Sluice at `url`, which may have a path. */
export function eventPoster(url: string, key: string, timeoutMs: number): PostEvents {
  const endpoint = `${url.replace(/\/+$/, '')}/collect/batch`
  return async (events, end) => {
    const json = `{"events":[${events.join()}]}`
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const isCompressed = Buffer.byteLength(json) >= gzipBytesMin
    const timeout = AbortSignal.timeout(timeoutMs)
    // Without a listener, Node 22.15 and older collect the signal as garbage, and the request has no time limit.
    timeout.onabort = Boolean
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: isCompressed ? { ...headers, 'Content-Encoding': 'gzip' } : headers,
        body: isCompressed ? await compress(json) : json,
        // A redirect might send the key and the events to another server.
        redirect: 'manual',
        signal: AbortSignal.any([end, timeout]),
      })
      const { status, headers: received } = response
      return { status, header: (name) => received.get(name), ...bodyOf(await response.text()) }
    } catch {
      return { status: 0, header: () => null }
    }
  }
}

function bodyOf(text: string): Pick<Answer, 'body'> {
  try {
    const body = JSON.parse(text) as unknown
    return typeof body === 'object' && body !== null ? { body } : {}
  } catch {
    // A proxy may answer with HTML.
    return {}
  }
}
