import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { encodeEvent } from './encode-event.ts'
import { keyHashOfGeneratedId } from './key-hash.ts'

/** Texts with everything that a line has, or escapes. */
const text = fc.oneof(fc.string({ maxLength: 30 }), fc.constantFrom(',"event_id":"', '\\","event_id":"x', '"'))

const sent = fc.record({
  site_id: fc.oneof(fc.constantFrom('shop', 'a/b', 'ä'), fc.string({ minLength: 1, maxLength: 20 })),
  event_type: text.filter((value) => value !== ''),
  user_id: text,
  url: text,
  referrer: text,
  event_id: fc.constantFrom(undefined, null, ''),
  properties: fc.dictionary(fc.constantFrom('event_id', 'site_id', 'plan'), text),
})

test('an event with an id that the gateway made has the same hash when it comes again with that id', () => {
  fc.assert(
    fc.property(sent, (event) => {
      const context = { receivedAt: Date.UTC(2026, 9), environment: 'prod' } as const
      const made = encodeEvent(event, context)
      expect(made.keyHash).toBeUndefined()
      const { event_id: eventId } = JSON.parse(made.line) as { event_id: string }
      const again = encodeEvent({ ...event, event_id: eventId }, context)
      expect(keyHashOfGeneratedId(made)).toBe(again.keyHash)
    }),
    { numRuns: 2_000 },
  )
})
