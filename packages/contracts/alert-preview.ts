import {
  type AlertTrigger,
  defaultGapMsMax,
  isConditionTrue,
  type MeasuredWindow,
  newAlertState,
  nextAlertState,
} from './alert-state.ts'
import { alertLimits, type AlertPreview } from './alerts.ts'

/** The values that a rule would have measured, at evenly spaced times. */
export interface PreviewedSeries {
  stepMs: number
  points: readonly { timestamp: number; measured: MeasuredWindow }[]
}

/** Simulates a rule over a series, from the state of a new rule. */
export function previewOf(
  trigger: AlertTrigger,
  { stepMs, points }: PreviewedSeries,
): Omit<AlertPreview, 'complete_until'> {
  const firings: AlertPreview['firings'] = []
  // Points may be further apart than `defaultGapMsMax`, but no evaluation is missing between them, so `forMs` must not
  // start again.
  const stepped = { ...trigger, gapMsMax: Math.max(defaultGapMsMax, stepMs) }
  let state = newAlertState
  for (const { timestamp, measured } of points) {
    const result = nextAlertState(stepped, state, timestamp, measured)
    state = result.state
    if (result.transition?.to === 'firing') firings.push({ from: timestamp, to: null, value: result.transition.value })
    const last = firings.at(-1)
    if (result.transition?.to === 'resolved' && last) last.to = timestamp
  }
  return {
    times_fired: firings.length,
    step_ms: stepMs,
    firings: firings.slice(-alertLimits.previewPointsMax),
    series: thinned(trigger, points),
  }
}

/**
 * Reduces a series to the points that a preview may have, by keeping one point of each group of neighbours. It prefers
 * points for which the condition is true. Among these, it keeps the highest one, or the lowest one if the rule fires
 * for low values.
 */
function thinned(trigger: AlertTrigger, points: PreviewedSeries['points']): AlertPreview['series'] {
  const series = points.map(({ timestamp, measured }) => ({
    timestamp,
    value: measured.outcome === 'value' ? measured.value : 0,
    isTrue: isConditionTrue(trigger, measured),
  }))
  const perPoint = Math.ceil(series.length / alertLimits.previewPointsMax)
  const sign = /^(less|decreases)/.test(trigger.operator) ? -1 : 1
  return series.flatMap((_, index) => {
    if (index % perPoint !== 0) return []
    const neighbours = series.slice(index, index + perPoint)
    const candidates = neighbours.some(({ isTrue }) => isTrue) ? neighbours.filter(({ isTrue }) => isTrue) : neighbours
    const { timestamp, value } = candidates.reduce((kept, each) =>
      sign * each.value >= sign * kept.value ? each : kept,
    )
    return [{ timestamp, value }]
  })
}
