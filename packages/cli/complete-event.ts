import { randomUUID } from 'node:crypto'
import { isAbsent } from '@sluice/contracts/absent-field'

/** The fields that an event lacks. With an id and a timestamp, a repeated request stores nothing twice. */
export function missingFields(
  event: Readonly<Record<string, unknown>>,
  siteId: string | undefined,
): Record<string, unknown> {
  return {
    ...(isAbsent(event.event_id) && { event_id: randomUUID() }),
    ...(isAbsent(event.timestamp) && { timestamp: Date.now() }),
    ...(isAbsent(event.site_id) && siteId !== undefined && { site_id: siteId }),
  }
}

/**
 * The JSON of an object with further members. The text of the object does not change, so that numbers keep digits that
 * a double can't hold.
 */
export function withMembers(json: string, members: Readonly<Record<string, unknown>>): string {
  const added = JSON.stringify(members).slice(1, -1)
  if (added === '') return json
  const inner = json.slice(1, -1).trim()
  return `{${inner}${inner === '' ? '' : ','}${added}}`
}
