import type { Preset, Range } from './range.ts'

/** The ends of a range as commands of a shell that print Unix ms; an absent start stays the same at all times. */
export interface ShellDates {
  start?: string
  end: string
}

/**
 * A day of the zone at midnight, for the `date` of macOS and of the BSDs, whose options adjust the clock in their
 * order, and for that of GNU, which reads a text. Each refuses the options of the other; POSIX itself can only print
 * the current time.
 */
interface Midnight {
  bsd: string
  gnu: (date: (format: string) => string) => string
}

const daysAgo = (days: number): Midnight => ({ bsd: `-v-${days}d`, gnu: () => `'${days} days ago 0:00'` })
/** First day of the month a number of months ago. */
const monthsAgo = (months: number): Midnight => ({
  bsd: `-v1d -v-${months}m`,
  gnu: (date) => `"$(${date('+%Y-%m-01')}) ${months} months ago"`,
})
const newYear: Midnight = { bsd: '-v1d -v1m', gnu: (date) => `"$(${date('+%Y-01-01')})"` }

/** Where presets begin, and where those end that do not end now. */
const midnights: Record<Preset, { start?: Midnight; end?: Midnight }> = {
  today: { start: daysAgo(0) },
  yesterday: { start: daysAgo(1), end: daysAgo(0) },
  '7d': { start: daysAgo(6) },
  '28d': { start: daysAgo(27) },
  '91d': { start: daysAgo(90) },
  month: { start: monthsAgo(0) },
  last_month: { start: monthsAgo(1), end: monthsAgo(0) },
  year: { start: newYear },
  '12mo': { start: monthsAgo(11) },
  all: {},
}

/** A range that moves with the time, for commands that are run later; undefined for chosen days, which stay. */
export function shellDates(range: Range, zone: string): ShellDates | undefined {
  if (typeof range === 'object') return undefined
  const date = (options: string) => `TZ='${zone}' date ${options}`
  const command = ({ bsd, gnu }: Midnight) =>
    `${date(`${bsd} -v0H -v0M -v0S +%s000`)} 2>/dev/null || ${date(`-d ${gnu(date)} +%s000`)}`
  const { start, end } = midnights[range]
  return {
    ...(start === undefined ? {} : { start: command(start) }),
    end: end === undefined ? 'date +%s000' : command(end),
  }
}
