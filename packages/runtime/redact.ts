/** What stands in logs and errors in place of a text that holds a key. */
export const redacted = '[redacted]'

/** Whether a text holds an API key, or begins one: a key in the wrong place of a request must not be repeated. */
export function holdsKey(text: string): boolean {
  return /svc_(prod|dev)_/.test(text)
}
