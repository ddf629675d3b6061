import { isUtf8 } from 'node:buffer'
import { invalidFormat } from '@sluice/runtime/errors'
import { parseJson } from '@sluice/runtime/parse-json'

const byteOrderMark = 0xfeff

/** Throws 400 `Invalid format: …` for bytes that are not UTF-8, which Buffer.toString would replace by U+FFFD. */
export function requireUtf8(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw invalidFormat('body is not valid UTF-8')
}

/**
 * The text of a body (docs/http-interface.md#event-text), without the byte order mark that some clients on Windows send
 * first. Throws 400 for a body that is not UTF-8.
 */
export function decodeBody(bytes: Buffer): string {
  requireUtf8(bytes)
  const text = bytes.toString('utf8')
  return text.charCodeAt(0) === byteOrderMark ? text.slice(1) : text
}

/** Parses a body as JSON; throws 400 `Invalid format: …` without echoing the body. `parse` throws a SyntaxError. */
export function parseJsonBody(bytes: Buffer, parse?: (text: string) => unknown): unknown {
  return parseJsonText(decodeBody(bytes), parse)
}

/** Like `parseJsonBody`, for a body that has been decoded. */
export function parseJsonText(text: string, parse: (text: string) => unknown = parseJson): unknown {
  if (text.trim() === '') throw invalidFormat('body is empty, a JSON object is expected')
  try {
    return parse(text)
  } catch {
    throw invalidFormat('body is not valid JSON')
  }
}
