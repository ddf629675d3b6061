/** RFC 9110, 5.6.7: the three forms of a date. All of them are in GMT; the last one names no zone. */
const dateForms = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]
/** More digits than any sensible wait needs, but few enough that the ms are a safe integer. */
const seconds = /^\d{1,9}$/

/**
 * The wait in ms that a header `Retry-After` requests, as seconds or as a date, which is compared with `now`. Null for
 * other texts.
 */
export function parseRetryAfter(header: string | undefined, now: number): number | null {
  const text = header?.trim() ?? ''
  if (seconds.test(text)) return Number(text) * 1_000
  if (!dateForms.some((form) => form.test(text))) return null
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}
