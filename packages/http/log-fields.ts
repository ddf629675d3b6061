import { isId } from '@sluice/runtime/ids'
import { holdsKey, redacted } from '@sluice/runtime/redact'

type LogValue = string | number | boolean

/** A path may name a site of 16 KiB, while a site's id has at most 64 characters. */
const siteIdLengthMax = 128

/** Adds to the fields of a request's log line those of its handler, as `loggable` shows them. */
export function addLogFields(fields: Record<string, unknown>, more: Readonly<Record<string, LogValue>>): void {
  for (const [name, value] of Object.entries(more)) fields[name] = loggable(name, value)
}

/**
 * A field as the log shows it. Ids come from the request as they were sent, perhaps with a secret in the place of the
 * id: keys are recognised by their prefix wherever they are. The other secrets, such as session tokens, have no form of
 * their own, but are no ids either. Only the id of a site may be any text, and is cut.
 */
function loggable(name: string, value: LogValue): LogValue {
  if (typeof value !== 'string') return value
  if (holdsKey(value)) return redacted
  if (name === 'site_id') return value.slice(0, siteIdLengthMax)
  return name.endsWith('_id') && !isId(value) ? '[not an id]' : value
}
