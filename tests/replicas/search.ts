import fc from 'fast-check'
import type { Occurrence } from './journal.ts'
import type { Protocol } from './protocol.ts'
import { run } from './run.ts'
import { schedules } from './schedules.ts'

/** Result of many runs. */
export interface Findings {
  /** Runs until a violation was found, or all of them. */
  runs: number
  /** The shortest schedule that was found with a lost or doubled event, in sentences; undefined when there is none. */
  counterexample: string | undefined
  /** For each occurrence the number of runs in which it happened. */
  runsWith: ReadonlyMap<Occurrence, number>
}

/** For a run that does not end, only the first and the last steps are shown. */
const stepsShown = 80

/** Looks for a schedule with which a protocol loses or doubles an event. The same seed finds the same. */
export function search(protocol: Protocol, { runs, seed }: { runs: number; seed: number }): Findings {
  const runsWith = new Map<Occurrence, number>()
  const property = fc.property(schedules, (schedule) => {
    const { violation, counts } = run(protocol, schedule)
    for (const occurrence of counts.keys()) runsWith.set(occurrence, (runsWith.get(occurrence) ?? 0) + 1)
    return violation === undefined
  })
  const { numRuns, counterexample } = fc.check(property, { numRuns: runs, seed })
  if (counterexample === null) return { runs: numRuns, counterexample: undefined, runsWith }
  const { violation, steps } = run(protocol, counterexample[0], { tells: true })
  const shown =
    steps.length > 2 * stepsShown ? [...steps.slice(0, stepsShown), '…', ...steps.slice(-stepsShown)] : steps
  return { runs: numRuns, counterexample: [...shown, `Violation: ${violation ?? 'none'}`].join('\n'), runsWith }
}
