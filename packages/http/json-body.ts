import { invalidFormat } from '@sluice/contracts/errors'

/** Parses a body as JSON; throws 400 `Invalid format: …` without echoing the body. */
export function parseJson(bytes: Buffer): unknown {
  // Buffer.toString would replace ill-formed UTF-8 in silence as well: contract section 3 asks for U+FFFD.
  const text = bytes.toString('utf8')
  if (text.trim() === '') throw invalidFormat('body is empty, a JSON object is expected')
  try {
    return JSON.parse(text)
  } catch {
    throw invalidFormat('body is not valid JSON')
  }
}
