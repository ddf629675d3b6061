import { isId } from '@sluice/runtime/ids'
import { holdsKey, redacted } from '@sluice/runtime/redact'

type LogValue = string | number | boolean

/** A path may contain a site id of 16 KiB, while valid site ids have at most 64 characters. */
const siteIdLengthMax = 128

/** Adds to the fields of a request's log line those of its handler, as `loggable` shows them. */
export function addLogFields(fields: Record<string, unknown>, more: Readonly<Record<string, LogValue>>): void {
  for (const [name, value] of Object.entries(more)) fields[name] = loggable(name, value)
}

/**
 * A field as the log shows it. A client may have sent a secret in place of an id. Keys are recognised by their prefix
 * in every field. Other secrets, such as session tokens, have no recognisable form, so ids are logged only if they have
 * the form of an id. Site ids may be any text; long ones are cut.
 */
function loggable(name: string, value: LogValue): LogValue {
  if (typeof value !== 'string') return value
  if (holdsKey(value)) return redacted
  if (name === 'site_id') return value.slice(0, siteIdLengthMax)
  return name.endsWith('_id') && !isId(value) ? '[not an id]' : value
}
