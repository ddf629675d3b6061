import { invalidField } from '@sluice/runtime/errors'
import { doubleOf } from '@sluice/runtime/parse-exactly'

/** An ISO 8601 date, or date and time (RFC 3339), with or without a time zone. */
const isoDate = /^(\d{4}-\d\d-(\d\d))(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?$/

/**
 * Unix ms of a message's time: ISO 8601, as Segment's clients send it, or a number of Unix ms. A time without a time
 * zone is UTC; fractions of milliseconds are dropped; a leap second is the second after it. Undefined if it is absent.
 * Throws 400 with the name `field` for anything else.
 */
export function parseTimestamp(value: unknown, field: string): number | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const number = doubleOf(value)
  if (typeof number === 'number') return number
  const ms = typeof value === 'string' ? parseIsoDate(value) : undefined
  if (ms === undefined) throw invalidField(field, 'must be an ISO 8601 date, e.g. 2026-01-31T12:00:00.000Z')
  return ms
}

function parseIsoDate(text: string): number | undefined {
  const match = isoDate.exec(text)
  if (!match) return undefined
  const [, date = '', day = '', minutes = '00:00', seconds = '00', fraction = '', zone = 'Z'] = match
  // Date.parse turns 30 February into 1 March.
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined
  const leapMs = seconds === '60' ? 1000 : 0
  const upTo59 = leapMs > 0 ? '59' : seconds
  const ms = Date.parse(`${date}T${minutes}:${upTo59}.${fraction.slice(0, 3).padEnd(3, '0')}${zoneOf(zone)}`)
  return Number.isNaN(ms) ? undefined : ms + leapMs
}

/** The time zone in the form that Date.parse requires: `Z` or `+02:00`. */
function zoneOf(zone: string): string {
  if (/^z$/i.test(zone)) return 'Z'
  return `${zone.slice(0, 3)}:${zone.slice(3).replace(':', '') || '00'}`
}
