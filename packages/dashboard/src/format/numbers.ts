import type { Metric } from '@sluice/contracts/stats'
import { texts } from './messages.ts'

/** The language of texts and numbers. */
export const locale = 'en-GB'

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 })
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 })
const percent = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
const lowPercent = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const finePercent = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 })

const percentDigits = (value: number): string => (value > 0 && value < 1 ? lowPercent : percent).format(value)

/** `1,240,312`: all digits, at most two after the point. */
export const formatNumber = (value: number): string => whole.format(value)

/** `1.24M`: three significant digits from 10,000 on, all digits below. */
export const formatCompact = (value: number): string =>
  Math.abs(value) < 10_000 ? formatNumber(value) : compact.format(value)

/** `38.2%` from a percentage (0–100); `0.38%` below 1 %, where one digit would be too few. */
export const formatPercent = (value: number): string => `${percentDigits(value)}%`

/** `0.5%` of a task: one digit always, so that the text does not change its form as it counts up. */
export const formatProgress = (value: number): string => `${percent.format(value)}%`

/** `3m 24s` from seconds: the two largest units; `0.4s` below ten seconds. */
export function formatDuration(seconds: number): string {
  if (seconds < 10) return `${formatNumber(Math.round(seconds * 10) / 10)}s`
  const total = Math.round(seconds)
  const parts: [number, string][] = [
    [Math.floor(total / 86_400), 'd'],
    [Math.floor(total / 3_600) % 24, 'h'],
    [Math.floor(total / 60) % 60, 'm'],
    [total % 60, 's'],
  ]
  const first = parts.findIndex(([count]) => count > 0)
  return parts
    .slice(first, first + 2)
    .filter(([count], at) => at === 0 || count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(' ')
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** `3.2 MB`, in powers of 1,000. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), byteUnits.length - 1)
  return `${new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }).format(bytes / 1000 ** power)} ${byteUnits[power] ?? ''}`
}

/** How the values of a metric are written. */
export type NumberKind = 'count' | 'percent' | 'duration'

/** The kind of a metric's values. */
export const kindOf = (metric: Metric): NumberKind => {
  if (metric === 'bounce_rate' || metric === 'conversion_rate') return 'percent'
  return metric === 'avg_session_duration' ? 'duration' : 'count'
}

/** A value as it is shown: counts are compact. */
export function formatValue(value: number, kind: NumberKind): string {
  if (kind === 'percent') return formatPercent(value)
  return kind === 'duration' ? formatDuration(value) : formatCompact(value)
}

/** The labels of an axis. Percentages have as many digits as the finest of them needs: one to three. */
export function formatAxis(values: readonly number[], kind: NumberKind): string[] {
  if (kind !== 'percent') return values.map((value) => formatValue(value, kind))
  const digits = [1, 2].find((few) => values.every((value) => Number(value.toFixed(few)) === value)) ?? 3
  const format = new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits })
  return values.map((value) => `${format.format(value)}%`)
}

/** A value with all its digits, for the tooltip and for screen readers. */
export function formatExact(value: number, kind: NumberKind): string {
  if (kind === 'percent') return `${finePercent.format(value)}%`
  return kind === 'duration' ? texts.seconds(whole.format(Math.round(value * 10) / 10)) : formatNumber(value)
}

/** A change from one value to another: in points for percentages, else in percent of the first; `new` from zero. */
export type NumberChange =
  { kind: 'same' } | { kind: 'new' } | { kind: 'points' | 'percent'; amount: number; isRise: boolean }

/** The change between two values of a kind: `same` if it is below half of the last digit that `formatChange` shows. */
export function changeOf(before: number, after: number, kind: NumberKind): NumberChange {
  if (before === after) return { kind: 'same' }
  if (kind === 'percent') {
    const amount = Math.abs(after - before)
    return amount < 0.005 ? { kind: 'same' } : { kind: 'points', amount, isRise: after > before }
  }
  if (before === 0) return { kind: 'new' }
  const amount = (Math.abs(after - before) / Math.abs(before)) * 100
  return amount < 0.05 ? { kind: 'same' } : { kind: 'percent', amount, isRise: after > before }
}

/** `12.4%`, `1.2 points`, `new`, or `no change`; without a sign, which an arrow shows. */
export function formatChange(change: NumberChange): string {
  if (change.kind === 'same') return texts.unchanged
  if (change.kind === 'new') return texts.fromZero
  const { amount } = change
  if (change.kind === 'points') return texts.points(percentDigits(amount))
  return `${amount >= 1000 ? formatCompact(Math.round(amount)) : percent.format(amount)}%`
}
