/** How the measured value is compared with the threshold, in the order of docs/http-interface.md#alert-condition. */
export const alertOperators = [
  'greater_than',
  'greater_than_or_equal',
  'less_than',
  'less_than_or_equal',
  'equals',
  'not_equals',
  'increases_by_percent',
  'decreases_by_percent',
] as const

export type AlertOperator = (typeof alertOperators)[number]

/** The meaning of a window without events: the value 0, nothing at all, or that the condition is true. */
export const noDataRules = ['zero', 'keep', 'alert'] as const

export type NoDataRule = (typeof noDataRules)[number]

/** The part of a rule that decides when it fires. Times are in ms. */
export interface AlertTrigger {
  operator: AlertOperator
  /** Percent for the percent operators, otherwise in the unit of the metric. */
  threshold: number
  /** Time for which the condition has to be true before the rule fires. */
  forMs: number
  /** Time after a firing in which the rule does not fire again. */
  cooldownMs: number
  noData: NoDataRule
  /** If no minute was evaluated for longer than this, `forMs` starts again; five minutes by default. */
  gapMsMax?: number
}

/** The state of a rule after the last minute for which it was evaluated. Times are ends of windows, Unix ms. */
export interface AlertState {
  /** `no_data`: the rule fires because its window has no data. */
  state: 'ok' | 'firing' | 'no_data'
  /** Since when the condition is true without the rule firing; null: it is not true, or the rule fires. */
  pendingSince: number | null
  /** The last minute for which the condition was true; null: it was false at the last evaluation, or there was none. */
  trueAt: number | null
  lastFiredAt: number | null
  lastValue: number | null
}

/**
 * A metric over the window that ends with a minute. `previous` is its value over the window before, 0 unless it is
 * needed.
 */
export type Measured =
  | { outcome: 'value'; value: number; previous: number }
  | { outcome: 'no_data'; previous: number }
  /** The metric could not be measured. */
  | { outcome: 'failed' }

/** What a measurement that did not fail returns. */
export type MeasuredWindow = Exclude<Measured, { outcome: 'failed' }>

/**
 * The outcome of a measurement. `hasData`: whether the window has what is measured: events, or for a metric of sessions
 * a session that began in it. This matters only for the value 0, because another value shows that there is data.
 */
export function measuredWindow({
  value,
  previous,
  hasData,
}: {
  value: number
  previous: number
  hasData: boolean
}): MeasuredWindow {
  return value === 0 && !hasData ? { outcome: 'no_data', previous } : { outcome: 'value', value, previous }
}

/** A change that users are told about. */
export interface AlertTransition {
  to: 'firing' | 'resolved'
  /** The value that was measured, 0 without data. */
  value: number
}

/** The state of a rule that was never evaluated. */
export const newAlertState: AlertState = {
  state: 'ok',
  pendingSince: null,
  trueAt: null,
  lastFiredAt: null,
  lastValue: null,
}

/** If the gap between two evaluations is longer, nobody can say that the condition was true in between. */
export const defaultGapMsMax = 5 * 60_000

/**
 * The state of a rule after a minute, named by the end of its window (Unix ms), and the transition if there is one
 * (docs/alerts.md). A failed measurement changes nothing, nor does a window without events under `keep`.
 *
 * A condition that is true makes the rule pending; it fires as soon as the condition has been true for `forMs` and the
 * cooldown since the last firing is over, and it resolves as soon as the condition is false. Pending starts again after
 * a gap longer than `gapMsMax`.
 */
export function nextAlertState(
  trigger: AlertTrigger,
  state: AlertState,
  minute: number,
  measured: Measured,
): { state: AlertState; transition?: AlertTransition } {
  if (measured.outcome === 'failed') return { state }
  const isNoData = measured.outcome === 'no_data'
  if (isNoData && trigger.noData === 'keep') return { state }
  const value = isNoData ? 0 : measured.value
  const isFiring = state.state !== 'ok'
  if (!isConditionTrue(trigger, measured)) {
    const next: AlertState = { ...state, state: 'ok', pendingSince: null, trueAt: null, lastValue: value }
    return isFiring ? { state: next, transition: { to: 'resolved', value } } : { state: next }
  }
  const firing = isNoData && trigger.noData === 'alert' ? 'no_data' : 'firing'
  if (isFiring) return { state: { ...state, state: firing, trueAt: minute, lastValue: value } }
  const pendingSince = pendingAt(state, minute, trigger.gapMsMax)
  if (minute - pendingSince < trigger.forMs || isCoolingDown(trigger, state, minute)) {
    return { state: { ...state, pendingSince, trueAt: minute, lastValue: value } }
  }
  return {
    state: { state: firing, pendingSince: null, trueAt: minute, lastFiredAt: minute, lastValue: value },
    transition: { to: 'firing', value },
  }
}

/** Since when the condition has been true, which it is at `minute`. */
function pendingAt({ pendingSince, trueAt }: AlertState, minute: number, gapMs = defaultGapMsMax): number {
  return pendingSince === null || trueAt === null || minute - trueAt > gapMs ? minute : pendingSince
}

function isCoolingDown({ cooldownMs }: AlertTrigger, { lastFiredAt }: AlertState, minute: number): boolean {
  return lastFiredAt !== null && minute - lastFiredAt < cooldownMs
}

/** Whether the condition of a rule is true for a window. A window without events never makes it true under `keep`. */
export function isConditionTrue(
  trigger: Pick<AlertTrigger, 'operator' | 'threshold' | 'noData'>,
  measured: MeasuredWindow,
): boolean {
  if (measured.outcome === 'value') return isMet(trigger, measured.value, measured.previous)
  if (trigger.noData === 'zero') return isMet(trigger, 0, measured.previous)
  return trigger.noData === 'alert'
}

/**
 * Whether a value meets the condition; `previous` is the value over the window before. From 0 any rise is an increase.
 */
export function isMet(
  { operator, threshold }: Pick<AlertTrigger, 'operator' | 'threshold'>,
  value: number,
  previous: number,
): boolean {
  switch (operator) {
    case 'greater_than':
      return value > threshold
    case 'greater_than_or_equal':
      return value >= threshold
    case 'less_than':
      return value < threshold
    case 'less_than_or_equal':
      return value <= threshold
    case 'equals':
      return value === threshold
    case 'not_equals':
      return value !== threshold
    case 'increases_by_percent':
      return value > previous && (previous === 0 || isChangedBy(threshold, value, previous))
    case 'decreases_by_percent':
      return value < previous && isChangedBy(threshold, value, previous)
  }
}

/** Whether a value differs from the previous one by at least a percentage of that. */
function isChangedBy(percent: number, value: number, previous: number): boolean {
  // In thousandths, because metrics have up to 3 decimals, and without a division: whole numbers are exact. A percentage
  // with decimals is not, but the error of its product is beyond the 15th digit.
  const [changed, before] = [Math.round(value * 1_000), Math.round(previous * 1_000)]
  return Math.abs(changed - before) * 100 >= Number((percent * before).toPrecision(15))
}

/** Whether the condition also needs the value over the window before. */
export function comparesWindows(operator: AlertOperator): boolean {
  return operator === 'increases_by_percent' || operator === 'decreases_by_percent'
}
