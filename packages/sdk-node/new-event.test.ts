import { expect, test } from '@jest/globals'
import { atTime, newEvent } from './new-event.ts'

test('an event with a corrected time is otherwise the same, whatever the names of its properties are', () => {
  for (const name of ['\\', '"', '\n', '"timestamp":1']) {
    const properties = { first: 1, [name]: 2, timestamp: 1 }
    const parts = { site: '"timestamp":1', type: 'x', properties, fields: { user_id: 'u' } }
    const event = newEvent({ ...parts, now: 1 })
    const corrected = atTime(event, 1_700_000_000_000)
    const expected = newEvent({
      ...parts,
      fields: { ...parts.fields, event_id: event.event_id },
      now: 1_700_000_000_000,
    })
    expect(corrected).toStrictEqual({ ...expected, isTimeFinal: true })
  }
})
