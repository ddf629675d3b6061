import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { frequencies } from '@sluice/contracts/exports'
import { nextOccurrence, type Recurrence } from './recurrence.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Bounds of the time between two occurrences, with changes of the clocks. */
const boundsMs = {
  hourly: [hourMs, hourMs],
  // The 30th December 2011 is skipped in Apia.
  daily: [0, 2 * dayMs],
  weekly: [6 * dayMs, 8 * dayMs],
  monthly: [26 * dayMs, 33 * dayMs],
} as const

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'Pacific/Apia']

const wall = (at: number, timeZone: string): { day: number; time: string } => {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  }).formatToParts(at)
  const part = (name: string): string => parts.find(({ type }) => type === name)?.value ?? ''
  return { day: Number(part('day')), time: `${part('hour')}:${part('minute')}:${part('second')}` }
}

const times = fc.integer({ min: Date.UTC(1995, 0), max: Date.UTC(2050, 0) })
const recurrences: fc.Arbitrary<Recurrence> = fc.record({
  frequency: fc.constantFrom(...frequencies),
  anchor: times,
  timeZone: fc.constantFrom(...zones),
})

test('occurrences follow one another without gaps, and the next one is the first after any time', () => {
  fc.assert(
    fc.property(recurrences, times, (recurrence, after) => {
      const { at, previous } = nextOccurrence(recurrence, after)
      expect(previous).toBeLessThanOrEqual(after)
      expect(at).toBeGreaterThan(after)
      const [min, max] = boundsMs[recurrence.frequency]
      expect(at - previous).toBeGreaterThanOrEqual(min)
      expect(at - previous).toBeLessThanOrEqual(max)
      // Every other time in between has the same next occurrence.
      expect(nextOccurrence(recurrence, previous)).toStrictEqual({ at, previous })
      expect(nextOccurrence(recurrence, at - 1)).toStrictEqual({ at, previous })
      expect(nextOccurrence(recurrence, at).previous).toBe(at)
    }),
    { numRuns: 500 },
  )
})

test('the anchor is an occurrence, whose time of day the others keep where the clocks show it', () => {
  fc.assert(
    fc.property(recurrences, times, (recurrence, after) => {
      const { anchor, frequency, timeZone } = recurrence
      expect(nextOccurrence(recurrence, anchor - 1).at).toBe(anchor)
      if (frequency === 'hourly') return
      const { at } = nextOccurrence(recurrence, after)
      const { day, time } = wall(at, timeZone)
      const expected = wall(anchor, timeZone)
      // A time of day that the clocks skip or show twice differs from that of the day before or after.
      const isChanging = wall(at - dayMs, timeZone).time !== time || wall(at + dayMs, timeZone).time !== time
      if (!isChanging) expect(time).toBe(expected.time)
      if (frequency === 'monthly' && !isChanging) {
        expect(day).toBeLessThanOrEqual(expected.day)
        if (day < expected.day) expect(wall(at + dayMs, timeZone).day).toBe(1)
      }
    }),
    { numRuns: 500 },
  )
})

describe('by the calendar of Berlin', () => {
  const timeZone = 'Europe/Berlin'
  const utc = (text: string): number => Date.parse(`${text}Z`)
  test.each([
    ['the 31st becomes the month’s last day', 'monthly', '2026-01-31T08:00', '2026-02-01T00:00', '2026-02-28T08:00'],
    ['and the 31st again', 'monthly', '2026-01-31T08:00', '2026-03-01T00:00', '2026-03-31T07:00'],
    ['days keep their time in summer', 'daily', '2026-03-27T08:00', '2026-03-28T09:00', '2026-03-29T07:00'],
    ['a skipped time comes an hour later', 'daily', '2026-03-27T01:30', '2026-03-28T09:00', '2026-03-29T01:30'],
    ['of a time shown twice, the first', 'daily', '2026-10-20T00:30', '2026-10-24T09:00', '2026-10-25T00:30'],
    ['weeks keep their day', 'weekly', '2026-03-24T08:00', '2026-03-25T00:00', '2026-03-31T07:00'],
    ['hours are 3,600 s', 'hourly', '2026-03-29T00:15', '2026-03-29T01:00', '2026-03-29T01:15'],
  ] as const)('%s', (_, frequency, anchor, after, expected) => {
    expect(nextOccurrence({ frequency, anchor: utc(anchor), timeZone }, utc(after)).at).toBe(utc(expected))
  })
})
