import { invalidFormat } from '@sluice/runtime/errors'

const byteOrderMark = 0xfeff

/**
 * Parses a body as JSON; throws 400 `Invalid format: …` without echoing the body. A byte order mark, which some clients
 * on Windows send first, is skipped.
 */
export function parseJson(bytes: Buffer): unknown {
  // Buffer.toString replaces ill-formed UTF-8 by U+FFFD, as docs/http-interface.md#event-text requires.
  const decoded = bytes.toString('utf8')
  const text = decoded.charCodeAt(0) === byteOrderMark ? decoded.slice(1) : decoded
  if (text.trim() === '') throw invalidFormat('body is empty, a JSON object is expected')
  try {
    return JSON.parse(text)
  } catch {
    throw invalidFormat('body is not valid JSON')
  }
}
