import { randomFillSync } from 'node:crypto'

/** Hexadecimal digits that one id takes: 3 of `rand_a`, 1 for the variant, 15 of `rand_b`. */
const digitsPerId = 19
/**
 * Random bytes that are drawn at once. Drawing them for each id would take ten times as long as the rest of the event.
 */
const poolBytes = 512 * digitsPerId
const pool = Buffer.alloc(poolBytes)
let digits = ''
let used = 0

/** The digits of the time of the last id. Most ids of a batch share them. */
let prefix = ''
let prefixMs = -1

/**
 * A new UUIDv7 (RFC 9562, section 5.7) for a time in Unix ms. Its other 74 bits are random, so that ids from different
 * processes do not collide.
 */
export function newEventId(ms: number): string {
  if (ms !== prefixMs) {
    const hex = ms.toString(16).padStart(12, '0')
    prefix = `${hex.slice(0, 8)}-${hex.slice(8)}-7`
    prefixMs = ms
  }
  if (used === digits.length) {
    digits = randomFillSync(pool).toString('hex')
    used = 0
  }
  const at = used
  used += digitsPerId
  // The two highest bits of this digit are the variant, 10.
  const variant = '89ab'.charAt(digits.charCodeAt(at + 3) & 3)
  return `${prefix}${digits.slice(at, at + 3)}-${variant}${digits.slice(at + 4, at + 7)}-${digits.slice(at + 7, at + 19)}`
}
