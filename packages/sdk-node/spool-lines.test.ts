import { expect, test } from '@jest/globals'
import { decodeLines, encodeLine } from './spool-lines.ts'

const encode = (note: string) => {
  const json = JSON.stringify({ event_id: 'e1', timestamp: 5, properties: { note } })
  const event = { event_id: 'e1', timestamp: 5, json, bytes: Buffer.byteLength(json), isTimeFinal: false }
  return { event, line: encodeLine(event) }
}

test.each(['plain', 'a\u2028b', '\u2029', '\u0085', '\r\n', '\0', '\u{1f511}', '\ud800'])(
  'a line gives back a text %j',
  (note) => {
    const { event, line } = encode(note)
    expect(decodeLines(line)).toEqual({ events: [event], damaged: 0 })
  },
)
