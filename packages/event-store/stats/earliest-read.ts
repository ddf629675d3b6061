import { sessionWindowMs } from '../session-sql.ts'
import { comparedRange } from './compared-range.ts'
import type { StatsSpec } from './spec.ts'

/**
 * The time (Unix ms) before which an evaluation reads no event. It is before the range, because sessions may have begun
 * there.
 */
export function earliestRead(spec: StatsSpec): number {
  const { start, compare, timeZone = 'UTC' } = spec
  const compared = compare === undefined ? start : comparedRange(spec, compare, timeZone).start
  return Math.min(start, compared) - sessionWindowMs
}
