import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type PreviewedSeries, previewOf } from './alert-preview.ts'
import { alertOperators, type AlertTrigger, isMet, noDataRules } from './alert-state.ts'
import { alertLimits } from './alerts.ts'

const stepMs = 60_000
const { previewPointsMax } = alertLimits

const triggers = fc.record<AlertTrigger>({
  operator: fc.constantFrom(...alertOperators),
  threshold: fc.integer({ min: 0, max: 4 }),
  forMs: fc.constant(0),
  cooldownMs: fc.constant(0),
  noData: fc.constantFrom(...noDataRules),
})

const smallNumber = fc.integer({ min: 0, max: 6 })

const measurements = fc.oneof(
  fc.record({ outcome: fc.constant('value' as const), value: smallNumber, previous: smallNumber }),
  fc.record({ outcome: fc.constant('no_data' as const), previous: smallNumber }),
)

type Point = PreviewedSeries['points'][number]

function valueOf({ measured }: Point): number {
  return measured.outcome === 'value' ? measured.value : 0
}

/** Each series repeats a pattern. It has up to three times as many points as a preview. */
const patterns = fc.array(measurements, { minLength: 1, maxLength: 60 })
const lengths = fc.integer({ min: 1, max: 3 * previewPointsMax })

test('of each group of neighbours with a true condition, the series has a point for which it is true', () => {
  fc.assert(
    fc.property(triggers, patterns, lengths, (trigger, pattern, length) => {
      const points = Array.from({ length }, (_, index) => ({
        timestamp: index * stepMs,
        measured: pattern[index % pattern.length] ?? { outcome: 'no_data' as const, previous: 0 },
      }))
      const isTrue = (point: Point): boolean => {
        const { outcome, previous } = point.measured
        if (outcome === 'no_data' && trigger.noData !== 'zero') return trigger.noData === 'alert'
        return isMet(trigger, valueOf(point), previous)
      }
      const { series } = previewOf(trigger, { stepMs, points })
      const groupLength = Math.ceil(points.length / previewPointsMax)
      const groups = Array.from({ length: Math.ceil(length / groupLength) }, (_, index) =>
        points.slice(index * groupLength, (index + 1) * groupLength),
      )
      const kept = groups.map((group, index) => group.find(({ timestamp }) => timestamp === series[index]?.timestamp))
      expect(kept.map((point) => point && isTrue(point))).toStrictEqual(groups.map((group) => group.some(isTrue)))
      expect(series.map(({ value }) => value)).toStrictEqual(kept.map((point) => point && valueOf(point)))
    }),
  )
})

test.each([
  ['greater_than', 7],
  ['less_than', 1],
] as const)('of several neighbours, the series has the extreme one for %s', (operator, expected) => {
  const trigger: AlertTrigger = { operator, threshold: 4, forMs: 0, cooldownMs: 0, noData: 'zero' }
  const values = [5, 7, 1, 3]
  const points = Array.from({ length: values.length * previewPointsMax }, (_, index) => ({
    timestamp: index * stepMs,
    measured: { outcome: 'value' as const, value: values[index % values.length] ?? 0, previous: 0 },
  }))
  const { series } = previewOf(trigger, { stepMs, points })
  expect(series.map(({ value }) => value)).toStrictEqual(series.map(() => expected))
})
