import { invalidFormat } from '@sluice/contracts/errors'

const byteOrderMark = 0xfeff

/**
 * Parses a body as JSON; throws 400 `Invalid format: …` without echoing the body. A byte order mark, which some clients
 * on Windows put first, is passed over.
 */
export function parseJson(bytes: Buffer): unknown {
  // Buffer.toString would replace ill-formed UTF-8 in silence as well: contract section 3 asks for U+FFFD.
  const decoded = bytes.toString('utf8')
  const text = decoded.charCodeAt(0) === byteOrderMark ? decoded.slice(1) : decoded
  if (text.trim() === '') throw invalidFormat('body is empty, a JSON object is expected')
  try {
    return JSON.parse(text)
  } catch {
    throw invalidFormat('body is not valid JSON')
  }
}
