import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type EvaluatedMinute, expectedTransitions } from '../../tests/support/oracle/expected-transitions.ts'
import {
  alertOperators,
  type AlertState,
  type AlertTransition,
  type AlertTrigger,
  isMet,
  type Measured,
  newAlertState,
  nextAlertState,
  noDataRules,
} from './alert-state.ts'

const minuteMs = 60_000

const trigger: AlertTrigger = {
  operator: 'greater_than',
  threshold: 10,
  forMs: 0,
  cooldownMs: 60 * minuteMs,
  noData: 'zero',
}

type Symbol = 't' | 'f' | 'n' | 'x' | '.'

const measurements: Record<Exclude<Symbol, '.'>, Measured> = {
  t: { outcome: 'value', value: 11, previous: 0 },
  f: { outcome: 'value', value: 1, previous: 0 },
  n: { outcome: 'no_data', previous: 0 },
  x: { outcome: 'failed' },
}

/**
 * One letter a minute: t for true, f for false, n for no data, x for failed; a dot is a minute that is not evaluated.
 */
function historyOf(letters: string): EvaluatedMinute[] {
  return Array.from(letters).flatMap((letter, index) =>
    letter === '.' ? [] : [{ minute: index * minuteMs, measured: measurements[letter as Exclude<Symbol, '.'>] }],
  )
}

function run(
  rule: AlertTrigger,
  history: readonly EvaluatedMinute[],
): { transitions: (AlertTransition & { minute: number })[]; state: AlertState } {
  let state = newAlertState
  const transitions: (AlertTransition & { minute: number })[] = []
  for (const { minute, measured } of history) {
    const result = nextAlertState(rule, state, minute, measured)
    state = result.state
    if (result.transition) transitions.push({ ...result.transition, minute })
  }
  return { transitions, state }
}

/** The transitions as `+` and `-` with their minutes. */
function drawn(rule: Partial<AlertTrigger>, letters: string): string {
  const { transitions } = run({ ...trigger, ...rule }, historyOf(letters))
  return transitions.map(({ to, minute }) => `${to === 'firing' ? '+' : '-'}${minute / minuteMs}`).join(' ')
}

test('a rule fires once when its condition turns true, and resolves once when it turns false', () => {
  expect(drawn({ cooldownMs: 0 }, 'ffttftf')).toBe('+2 -4 +5 -6')
})

test('within the cooldown a condition that turns true again neither fires nor resolves', () => {
  expect(drawn({ cooldownMs: 10 * minuteMs }, 'tftftf')).toBe('+0 -1')
})

test('a condition that is still true at the end of the cooldown fires', () => {
  expect(drawn({ cooldownMs: 5 * minuteMs }, 'tfttttt')).toBe('+0 -1 +5')
})

test('for: the condition has to be true for so long, over gaps of five minutes but no longer ones', () => {
  const forMs = 6 * minuteMs
  expect(drawn({ forMs }, 'ttttttt')).toBe('+6')
  expect(drawn({ forMs }, 'ttttftt')).toBe('')
  expect(drawn({ forMs }, 't....tt')).toBe('+6')
  expect(drawn({ forMs }, 't.....tttttttt')).toBe('+12')
})

test('a failed measurement changes nothing: neither a firing nor what is pending', () => {
  expect(drawn({}, 'txxxf')).toBe('+0 -4')
  expect(drawn({ forMs: 2 * minuteMs }, 'txt')).toBe('+2')
})

test('no data is 0, nothing, or true, as the rule says', () => {
  expect(drawn({ noData: 'zero' }, 'tn')).toBe('+0 -1')
  expect(drawn({ noData: 'keep' }, 'tnnf')).toBe('+0 -3')
  expect(drawn({ noData: 'alert', forMs: 2 * minuteMs }, 'fnnnf')).toBe('+3 -4')
})

test('while a rule fires for want of data its state is no_data, and one firing may be of both kinds', () => {
  const rule: AlertTrigger = { ...trigger, noData: 'alert' }
  expect(run(rule, historyOf('n')).state).toMatchObject({ state: 'no_data', lastValue: 0 })
  expect(run(rule, historyOf('nt'))).toMatchObject({ state: { state: 'firing' }, transitions: [{ value: 0 }] })
})

test('percent operators compare with the window before, and from 0 any rise is an increase', () => {
  const increases = (value: number, previous: number): boolean =>
    isMet({ operator: 'increases_by_percent', threshold: 50 }, value, previous)
  expect([increases(3, 2), increases(2, 2), increases(1, 0), increases(0, 0)]).toStrictEqual([true, false, true, false])
  const decreases = (value: number, previous: number): boolean =>
    isMet({ operator: 'decreases_by_percent', threshold: 50 }, value, previous)
  expect([decreases(1, 2), decreases(2, 3), decreases(0, 0)]).toStrictEqual([true, false, false])
})

test.each([
  ['increases', 0.3, 0.2, 50],
  ['increases', 30.15, 20.1, 50],
  ['increases', 1.155, 1.1, 5],
  ['increases', 1_083, 1_000, 8.3],
  ['increases', 333, 250, 33.2],
  ['increases', 5, 3, 66.6666],
  ['increases', 7, 6, 16.6666],
  ['increases', 1_123_455, 1_000_000, 12.3455],
  ['increases', 1_000_001, 1_000_000, 0.0001],
  ['decreases', 45.45, 50.5, 10],
  ['decreases', 0.014, 0.02, 30],
] as const)(
  'a metric %s to %d from %d by %d percent, and by less than 0.0001 more',
  (direction, value, previous, percent) => {
    const isChanged = (threshold: number) => isMet({ operator: `${direction}_by_percent`, threshold }, value, previous)
    expect([isChanged(percent), isChanged(percent + 0.0001)]).toStrictEqual([true, false])
  },
)

test('over 10,000 random histories a rule has the transitions of the oracle', () => {
  const small = fc.integer({ min: 0, max: 4 })
  const measured = fc.oneof(
    { weight: 8, arbitrary: fc.record({ outcome: fc.constant('value' as const), value: small, previous: small }) },
    { weight: 2, arbitrary: fc.record({ outcome: fc.constant('no_data' as const), previous: small }) },
    { weight: 1, arbitrary: fc.constant({ outcome: 'failed' as const }) },
  )
  const minutes = fc.constantFrom(0, 0, 1, 3, 7).map((count) => count * minuteMs)
  const rule = fc.record({
    operator: fc.constantFrom(...alertOperators),
    threshold: fc.constantFrom(0, 1, 2, 3, 50, 100),
    forMs: minutes,
    cooldownMs: minutes,
    noData: fc.constantFrom(...noDataRules),
  })
  const history = fc.array(fc.tuple(fc.constantFrom(1, 1, 1, 1, 2, 5, 6), measured), { maxLength: 30 }).map((steps) => {
    let minute = 0
    return steps.map(([pause, value]) => ({ minute: (minute += pause * minuteMs), measured: value }))
  })
  fc.assert(
    fc.property(rule, history, (drawnRule, drawnHistory) =>
      expect(run(drawnRule, drawnHistory).transitions).toStrictEqual(expectedTransitions(drawnRule, drawnHistory)),
    ),
    { numRuns: 10_000 },
  )
})
