import { encodeEvent } from '@sluice/events/encode-event'
import { newEventId } from '@sluice/events/event-id'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { median, rounded } from './report.ts'
import { shapes } from './shapes.ts'

const rounds = 21
const ids = 100_000

/**
 * CPU time that parsing, validating and encoding an event takes, compared with JSON.parse and JSON.stringify of the
 * same lines in turns; both as text and as the bytes that the log gets.
 */
export function encode(): Promise<object> {
  const results = Object.entries(shapes).map(([events, lines]) => {
    const receivedAt = Math.max(Date.now(), Date.UTC(2026, 9))
    const context = { receivedAt, environment: 'prod' } as const
    const text = compare(
      lines,
      (line) => encodeEvent(parseExactly(line), context).line,
      (line) => JSON.stringify(JSON.parse(line)),
    )
    const bytes = compare(
      lines,
      (line) => Buffer.from(encodeEvent(parseExactly(line), context).line),
      (line) => Buffer.from(JSON.stringify(JSON.parse(line))),
    )
    return { events, text, bytes }
  })
  const idUs = median(
    Array.from({ length: rounds }, () => cpuUs(() => repeat(ids, () => newEventId(Date.now()))) / ids),
  )
  return Promise.resolve({ bar: 2, results, uuid_us: rounded(idUs, 3) })
}

/** Microseconds of CPU per event: the medians of both, and the median of the ratios of the rounds. */
function compare(
  lines: readonly string[],
  ours: (line: string) => { length: number },
  reference: (line: string) => { length: number },
): object {
  const runs = Array.from({ length: rounds }, () => ({
    reference: cpuUs(() => total(lines, reference)) / lines.length,
    ours: cpuUs(() => total(lines, ours)) / lines.length,
  })).slice(5) // The first rounds are interpreted.
  return {
    ratio: rounded(median(runs.map((run) => run.ours / run.reference))),
    us: rounded(median(runs.map((run) => run.ours))),
    reference_us: rounded(median(runs.map((run) => run.reference))),
  }
}

/** Uses every result, so that none is left out by the compiler. */
function total(lines: readonly string[], encodeLine: (line: string) => { length: number }): number {
  let length = 0
  for (const line of lines) length += encodeLine(line).length
  return length
}

function repeat(times: number, call: () => { length: number }): number {
  let length = 0
  for (let n = 0; n < times; n++) length += call().length
  return length
}

function cpuUs(run: () => number): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return user + system
}
