import { type AlertTrigger, type Measured, newAlertState, step } from './alert-state.ts'
import { alertLimits, type AlertPreview } from './alerts.ts'

/** The values that a rule would have measured, at evenly spaced times. */
export interface PreviewedSeries {
  stepMs: number
  points: readonly { timestamp: number; measured: Exclude<Measured, { outcome: 'failed' }> }[]
}

/** Simulates a rule over a series, from the state of a new rule. */
export function previewOf(
  trigger: AlertTrigger,
  { stepMs, points }: PreviewedSeries,
): Omit<AlertPreview, 'complete_until'> {
  const firings: AlertPreview['firings'] = []
  // Points that are further apart than minutes are no gap.
  const stepped = { ...trigger, gapMsMax: Math.max(5 * 60_000, stepMs) }
  let state = newAlertState
  for (const { timestamp, measured } of points) {
    const result = step(stepped, state, timestamp, measured)
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

/** At most so many points as a preview may have: of neighbours the one that is nearest to firing. */
function thinned({ operator }: AlertTrigger, points: PreviewedSeries['points']): AlertPreview['series'] {
  const series = points.map(({ timestamp, measured }) => ({
    timestamp,
    value: measured.outcome === 'value' ? measured.value : 0,
  }))
  const perPoint = Math.ceil(series.length / alertLimits.previewPointsMax)
  const isNearer = /^(less|decreases)/.test(operator)
    ? (value: number, than: number) => value <= than
    : (value: number, than: number) => value >= than
  return series.flatMap((_, index) => {
    if (index % perPoint !== 0) return []
    const neighbours = series.slice(index, index + perPoint)
    return [neighbours.reduce((kept, each) => (isNearer(each.value, kept.value) ? each : kept))]
  })
}
