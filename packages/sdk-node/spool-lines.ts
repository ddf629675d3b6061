import { crc32 } from 'node:zlib'
import type { QueuedEvent } from './new-event.ts'

/**
 * `<CRC-32 of the rest> <c: the time may be corrected, f: final>[<time of the replaced line>] <JSON of the event>`.
 * With `s`, because texts in JSON may hold U+2028, which ends a line for JavaScript.
 */
const pattern = /^([\da-f]{8}) ([cf])(-?\d*) (.*)$/s

/** A line of a spool file; `replaces` is the event's time in an earlier line, which this line replaces. */
export function encodeLine({ json, isTimeFinal }: QueuedEvent, replaces?: number): string {
  const content = `${isTimeFinal ? 'f' : 'c'}${replaces ?? ''} ${json}`
  return `${checksum(content)} ${content}\n`
}

/** The events of a spool file, and the number of damaged lines: the last write may have been cut off. */
export function decodeLines(text: string): { events: QueuedEvent[]; damaged: number } {
  const events = new Map<string, QueuedEvent>()
  let damaged = 0
  for (const line of text.split('\n')) {
    const [, sum, clock, replaces, json = ''] = pattern.exec(line) ?? []
    if (line === '') continue
    if (sum !== checksum(line.slice(9))) {
      damaged++
      continue
    }
    const { event_id, timestamp } = JSON.parse(json) as QueuedEvent
    if (replaces !== '') events.delete(`${event_id} ${replaces}`)
    const bytes = Buffer.byteLength(json)
    events.set(`${event_id} ${timestamp}`, { event_id, timestamp, json, bytes, isTimeFinal: clock === 'f' })
  }
  return { events: [...events.values()], damaged }
}

function checksum(content: string): string {
  return crc32(content).toString(16).padStart(8, '0')
}
