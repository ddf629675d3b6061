import { dayMs, hourMs, minuteMs } from '@sluice/contracts/time-units'

const byteUnits = ['bytes', 'KiB', 'MiB', 'GiB'] as const

/** `1,234`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

/** `1 event`, `2 events`. */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`
}

/** `12.3 MiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${byteUnits[unit] ?? ''}`
}

/** A duration in its largest fitting unit: `350 ms`, `12 s`, `3 h`. */
export function formatDuration(ms: number): string {
  const size = Math.abs(ms)
  if (size < 1_000) return `${Math.round(size)} ms`
  if (size < 120_000) return `${(size / 1_000).toFixed(size < 10_000 ? 1 : 0)} s`
  if (size < 2 * hourMs) return `${Math.round(size / minuteMs)} min`
  if (size < 2 * dayMs) return `${(size / hourMs).toFixed(1)} h`
  return `${Math.round(size / dayMs)} days`
}

/** `2026-01-31 12:30` in a time zone; `precision` says where it ends. */
export function formatTime(
  timestamp: number,
  timeZone: string,
  precision: 'day' | 'minute' | 'second' = 'minute',
): string {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(timestamp)
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.find((each) => each.type === type)?.value ?? ''
  const day = `${part('year')}-${part('month')}-${part('day')}`
  if (precision === 'day') return day
  const time = `${part('hour')}:${part('minute')}${precision === 'second' ? `:${part('second')}` : ''}`
  return `${day} ${time}`
}

/** The time zone of this machine. */
export function localTimeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone
}
