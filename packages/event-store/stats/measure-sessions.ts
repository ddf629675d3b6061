import type { Metric } from '@sluice/contracts/stats'
import { ClickHouseError } from '../errors.ts'
import type { QueryRunner } from '../query-runner.ts'
import { sessionWindowMs } from '../session-sql.ts'
import { countEvents } from './count-events.ts'
import { unusualSessionCode } from './row-sources.ts'
import type { SessionPlan, StatsPlan } from './spec.ts'
import { type RangeRow, rangeStatement } from './statements.ts'

/** The sizes at which a metric of sessions is estimated from a sample (docs/http-interface.md#precision). */
export interface SamplingThresholds {
  /** Events in and around the range; all sessions of fewer events are read, in half a second. */
  eventsMin: number
  /** One in this many sessions is read. */
  sampleFactor: number
  /** Sessions in the sample; after a smaller sample all sessions are read. */
  sampleMin: number
}

/** A sample represents at least four million sessions (16 × 250,000). */
const defaultThresholds: SamplingThresholds = { eventsMin: 16_000_000, sampleFactor: 16, sampleMin: 250_000 }

/** A metric of sessions over a range. */
export interface SessionsNumber {
  value: number
  isEstimated: boolean
}

/**
 * Measures a metric of sessions over a range without grouping, in large ranges from a sample by the hash of the session
 * ids, unless the sample leaves the value too uncertain. Buckets and groups are never sampled, as few of them hold a
 * million sessions.
 */
export async function measureSessions(
  plan: StatsPlan,
  runner: QueryRunner,
  { eventsMin, sampleFactor, sampleMin } = defaultThresholds,
): Promise<SessionsNumber> {
  const { metric } = plan
  const read = (plannedSampleFactor: number): Promise<RangeRow> =>
    retryAllowingUnusual(plannedSampleFactor, (sessions) => readRange({ ...plan, sessions }, runner))
  const around = { ...plan, start: plan.start - sessionWindowMs, end: plan.end + sessionWindowMs }
  if (!plan.exact && (await countEvents(around, runner)) >= eventsMin) {
    const sample = await read(sampleFactor)
    const value = sample[metric] ?? 0
    if (sample.measured >= sampleMin && errorOf(sample, metric) <= relativeErrorMax * value) {
      return { value, isEstimated: true }
    }
  }
  return { value: (await read(1))[metric] ?? 0, isEstimated: false }
}

/** Greatest error of an estimate with 99 % confidence, as a share of the value. */
const relativeErrorMax = 0.01

/** With 99 % confidence a mean is within this many standard errors of that of the sample. */
const standardErrors = 2.576

/** A sample may have missed sessions of a kind: with 99 % confidence there are fewer than this for every sample's number of sessions. */
const unseenMax = Math.log(100)

/**
 * The error of a sample's mean with 99 % confidence (docs/decisions/021-estimates.md): from its own standard deviation,
 * and from what no sample shows of itself, the few longest sessions that it has missed.
 */
function errorOf({ measured, ...row }: RangeRow, metric: Metric): number {
  const deviation = row[`${metric}_deviation`] ?? Infinity
  // The greatest duration is that of a session, in seconds; the greatest share is 100 percent.
  const termMax = metric === 'avg_session_duration' ? sessionWindowMs / 1000 : 100
  return (standardErrors * deviation) / Math.sqrt(measured) + (unseenMax * termMax) / measured
}

/** Reads sessions by the cheap statement, which fails when it does not serve them all; then by the one for all sessions. */
export async function retryAllowingUnusual<T>(
  sampleFactor: number,
  read: (sessions: SessionPlan) => Promise<T>,
): Promise<T> {
  try {
    return await read({ sampleFactor, allowsUnusual: false })
  } catch (error) {
    if (!(error instanceof ClickHouseError && error.serverCode === unusualSessionCode)) throw error
    return read({ sampleFactor, allowsUnusual: true })
  }
}

async function readRange(plan: StatsPlan, runner: QueryRunner): Promise<RangeRow> {
  const { rows } = await runner.query<RangeRow>(rangeStatement(plan))
  return rows[0] ?? { measured: 0 }
}
