/** Characters that JSON escapes, and halves of surrogate pairs, for which UTF-8 has no form. */
// eslint-disable-next-line no-control-regex -- JSON escapes control characters
const special = /[\0-\x1f"\\\ud800-\udfff]/

/**
 * Escapes a text for use between the quotes of a JSON string. Half of a surrogate pair becomes U+FFFD
 * (docs/http-interface.md#event-text). Undefined for a text with NUL, which texts of events must not contain.
 */
export function jsonText(text: string): string | undefined {
  if (!special.test(text)) return text
  return text.includes('\0') ? undefined : JSON.stringify(text.toWellFormed()).slice(1, -1)
}
