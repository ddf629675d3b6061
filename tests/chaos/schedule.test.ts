import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { drawSchedule, type FaultCounts, faultKinds, shareUntil } from './schedule.ts'

const seeds = fc.integer({ min: 0, max: 1_000_000 })
const counts = fc.dictionary(
  fc.constantFrom(...faultKinds),
  fc.integer({ min: 0, max: 30 }),
) as fc.Arbitrary<FaultCounts>

test('a schedule has each kind of fault as often as given, each fault in its own share of the events', () => {
  fc.assert(
    fc.property(seeds, counts, (seed, counts) => {
      const schedule = drawSchedule(seed, counts)
      for (const kind of faultKinds)
        expect(schedule.filter((fault) => fault.kind === kind)).toHaveLength(counts[kind] ?? 0)
      for (const [index, { at }] of schedule.entries()) {
        expect(at).toBeGreaterThanOrEqual(index / schedule.length)
        expect(at).toBeLessThanOrEqual((index + 0.5) / schedule.length)
        expect(at).toBeLessThan(shareUntil(index, schedule.length))
      }
      expect(shareUntil(schedule.length, schedule.length)).toBe(1)
    }),
  )
})

test('the seed alone decides order, moments and targets of a schedule', () => {
  const counts = { 'kill-gateway': 10, 'kill-kafka': 10, 'freeze-writer': 3 }
  expect(drawSchedule(7, counts)).toEqual(drawSchedule(7, counts))
  expect(drawSchedule(8, counts)).not.toEqual(drawSchedule(7, counts))
  expect(new Set(drawSchedule(7, counts).map(({ target }) => target))).toEqual(new Set([0, 1]))
})

test('the kinds of faults take turns, and a rare kind is spread over the run', () => {
  const schedule = drawSchedule(1, { 'kill-gateway': 30, 'kill-kafka': 30, 'freeze-writer': 2 })
  for (let index = 0; index < schedule.length; index++) {
    const before = schedule.slice(0, index).map(({ kind }) => kind)
    const difference =
      before.filter((kind) => kind === 'kill-gateway').length - before.filter((kind) => kind === 'kill-kafka').length
    expect(Math.abs(difference)).toBeLessThanOrEqual(1)
  }
  const freezes = schedule.flatMap(({ kind }, index) => (kind === 'freeze-writer' ? [index / schedule.length] : []))
  expect(freezes[0]).toBeGreaterThan(0.4)
  expect(freezes[0]).toBeLessThan(0.6)
  expect(freezes[1]).toBeGreaterThan(0.9)
})
