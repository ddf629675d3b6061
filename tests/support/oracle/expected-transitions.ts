import type { AlertTransition, AlertTrigger, Measured } from '@sluice/contracts/alert-state'

export interface EvaluatedMinute {
  minute: number
  measured: Measured
}

const fiveMinutesMs = 300_000

/**
 * The transitions of a rule over its whole history, by docs/alerts.md. Each minute has a verdict (true or false) or
 * none. A stretch is a sequence of true verdicts without a false verdict in between. The rule fires at most once in a
 * stretch, and the false verdict that ends the stretch resolves it.
 */
export function expectedTransitions(
  trigger: AlertTrigger,
  history: readonly EvaluatedMinute[],
): (AlertTransition & { minute: number })[] {
  const verdicts = history.flatMap(({ minute, measured }) => {
    const verdict = verdictOf(trigger, measured)
    return verdict === undefined ? [] : [{ minute, ...verdict }]
  })
  const transitions: (AlertTransition & { minute: number })[] = []
  verdicts.forEach(({ minute, isTrue, value }, index) => {
    const stretchStart = verdicts.slice(0, index).findLastIndex((earlier) => !earlier.isTrue) + 1
    const stretch = verdicts.slice(stretchStart, index)
    const hasFired = transitions.some(
      ({ minute: at, to }) => to === 'firing' && stretch.some((earlier) => earlier.minute === at),
    )
    if (!isTrue) {
      if (hasFired) transitions.push({ minute, to: 'resolved', value })
      return
    }
    if (hasFired) return
    const chain = [...stretch.map((earlier) => earlier.minute), minute]
    const afterGap = chain.findLastIndex((at, place) => place > 0 && at - (chain[place - 1] ?? at) > fiveMinutesMs)
    const trueSince = chain[Math.max(afterGap, 0)] ?? minute
    const last = transitions.findLast(({ to }) => to === 'firing')
    const isCool = last === undefined || minute >= last.minute + trigger.cooldownMs
    if (isCool && minute >= trueSince + trigger.forMs) transitions.push({ minute, to: 'firing', value })
  })
  return transitions
}

function verdictOf(
  { operator, threshold, noData }: AlertTrigger,
  measured: Measured,
): { isTrue: boolean; value: number } | undefined {
  if (measured.outcome === 'failed') return undefined
  if (measured.outcome === 'no_data' && noData !== 'zero') {
    return noData === 'alert' ? { isTrue: true, value: 0 } : undefined
  }
  const { previous } = measured
  const value = measured.outcome === 'value' ? measured.value : 0
  const changePercent = previous === 0 ? (value > 0 ? Infinity : 0) : ((value - previous) * 100) / previous
  const truths: Record<AlertTrigger['operator'], boolean> = {
    greater_than: value > threshold,
    greater_than_or_equal: !(value < threshold),
    less_than: threshold > value,
    less_than_or_equal: !(value > threshold),
    equals: value - threshold === 0,
    not_equals: value - threshold !== 0,
    increases_by_percent: changePercent > 0 && changePercent >= threshold,
    decreases_by_percent: changePercent < 0 && -changePercent >= threshold,
  }
  return { isTrue: truths[operator], value }
}
