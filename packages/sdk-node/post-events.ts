import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Answer } from '@sluice/sdk-core/read-answer'

/** Bodies from this size on are compressed. */
const gzipBytesMin = 1_024

const compress = promisify(gzip)

/**
 * Sends events, given as JSON, in one request. Resolves with status 0, and the reason as `error` of the body, without an
 * answer, or once `end` aborts; never rejects.
 */
export type PostEvents = (events: readonly string[], end: AbortSignal) => Promise<Answer>

/** Creates a function that sends to the Sluice at `url`, which may have a path. */
export function eventPoster(url: string, key: string, timeoutMs: number): PostEvents {
  const endpoint = `${url.replace(/\/+$/, '')}/collect/batch`
  return async (events, end) => {
    const json = `{"events":[${events.join()}]}`
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const isCompressed = Buffer.byteLength(json) >= gzipBytesMin
    // `AbortSignal.any` with a signal that lives as long as the client keeps memory for each request in Node 22.2.
    const request = new AbortController()
    const abort = (): void => request.abort()
    // `fetch` rejects with the reason of the abort. A DOMException would be larger.
    const timer = setTimeout(() => request.abort({ name: 'TimeoutError' }), timeoutMs).unref()
    end.addEventListener('abort', abort)
    try {
      if (end.aborted) abort()
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: isCompressed ? { ...headers, 'Content-Encoding': 'gzip' } : headers,
        body: isCompressed ? await compress(json) : json,
        // A redirect might send the key and the events to another server.
        redirect: 'manual',
        signal: request.signal,
      })
      return { status: response.status, headers: response.headers, body: bodyOf(await response.text()) }
    } catch (error) {
      // `fetch` says only that it failed: its cause has the code of the connection, or a message alone (`bad port`).
      const { name, cause } = error as Error & { cause?: { code?: string; message: string } }
      return { status: 0, body: { error: cause?.code ?? cause?.message ?? name } }
    } finally {
      clearTimeout(timer)
      end.removeEventListener('abort', abort)
    }
  }
}

/** The JSON of a body, whatever it is: `readAnswer` expects nothing of it. */
function bodyOf(text: string): NonNullable<Answer['body']> {
  try {
    return JSON.parse(text) as object
  } catch {
    // A proxy may answer with HTML.
    return {}
  }
}
