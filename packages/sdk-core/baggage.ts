import { eventLimits } from '@sluice/contracts/event-limits'

/** The ids that a page sends to servers in the header `baggage` (https://www.w3.org/TR/baggage/). */
export interface BaggageIds {
  session_id?: string
  anonymous_id?: string
}

/** Names of the header's members; the header may have members of other software. */
const names = { session_id: 'sluice.session_id', anonymous_id: 'sluice.anonymous_id' } as const
/** The header size in bytes that W3C baggage requires implementations to forward. */
const headerLengthMax = 8_192

/** Reads the ids from a header `baggage`. Invalid ids are ignored, because anybody can send the header. */
export function readBaggage(header: string): BaggageIds {
  const ids: BaggageIds = {}
  if (header.length > headerLengthMax) return ids
  for (const member of header.split(',')) {
    const [, name, value = ''] = /^\s*([^\s=;]+)\s*=\s*([^\s;]*)/.exec(member) ?? []
    const id = decode(value)
    if (id === '' || id.includes('\0') || Array.from(id).length > eventLimits.sessionIdLengthMax) continue
    if (name === names.session_id) ids.session_id = id
    if (name === names.anonymous_id) ids.anonymous_id = id
  }
  return ids
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return ''
  }
}
