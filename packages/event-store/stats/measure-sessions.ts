import type { Metric } from '@sluice/contracts/stats'
import { ClickHouseError } from '../errors.ts'
import { percent } from '../percent.ts'
import type { QueryRunner } from '../query-runner.ts'
import { sessionWindowMs } from '../session-sql.ts'
import { countEvents } from './count-events.ts'
import { unusualSessionCode } from './row-sources.ts'
import type { SessionPlan, StatsPlan } from './spec.ts'
import { type ConvertedSessionsRow, convertedSessionsStatement, type RangeRow, rangeStatement } from './statements.ts'

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
 * ids, unless the sample leaves the value too uncertain. Then a share of converted sessions is measured from their
 * number and the number of all sessions, which the sample leaves certain enough. Buckets and groups are never sampled,
 * as few of them hold a million sessions.
 */
export async function measureSessions(
  plan: StatsPlan,
  runner: QueryRunner,
  { eventsMin, sampleFactor, sampleMin } = defaultThresholds,
): Promise<SessionsNumber> {
  const { metric } = plan
  const read = (plannedSampleFactor: number): Promise<{ row: RangeRow; sessions: SessionPlan }> =>
    retryAllowingUnusual(plannedSampleFactor, async (sessions) => ({
      row: await readRange({ ...plan, sessions }, runner),
      sessions,
    }))
  const around = { ...plan, start: plan.start - sessionWindowMs, end: plan.end + sessionWindowMs }
  if (!plan.exact && (await countEvents(around, runner)) >= eventsMin) {
    const { row: sample, sessions } = await read(sampleFactor)
    const value = sample[metric] ?? 0
    if (sample.measured >= sampleMin) {
      if (errorOf(sample, metric) <= relativeErrorMax * value) return { value, isEstimated: true }
      const rate = await conversionRate({ ...plan, sessions }, sample, runner)
      if (rate !== undefined) return { value: rate, isEstimated: true }
    }
  }
  return { value: (await read(1)).row[metric] ?? 0, isEstimated: false }
}

/** Greatest error of an estimate with 99 % confidence, as a share of the value. */
const relativeErrorMax = 0.01

/** With 99 % confidence a mean is within this many standard errors of that of the sample. */
const standardErrors = 2.576

/**
 * A sample may have missed sessions of a kind: with 99 % confidence there are fewer than this for every sample's number
 * of sessions.
 */
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

/**
 * The conversion rate from the number of converted sessions, which are found by their events of the target type, and
 * the number of sessions that the sample stands for. Undefined for other metrics, for plans that count sessions by
 * further conditions, and where the error may exceed 1 %: that of the number of sessions, and that of converted
 * sessions of more than 24 h, of which the sample has missed a few at most.
 */
async function conversionRate(
  plan: StatsPlan,
  { measured }: RangeRow,
  runner: QueryRunner,
): Promise<number | undefined> {
  const { metric, filters, conditions, sessionsUntil, sessions } = plan
  const isPlain = Object.keys(filters).length === 0 && conditions.length === 0 && sessionsUntil === undefined
  if (metric !== 'conversion_rate' || !isPlain || sessions.allowsUnusual) return undefined
  const { sampleFactor } = sessions
  const { rows } = await runner.query<ConvertedSessionsRow>(convertedSessionsStatement(plan))
  const converted = rows[0]?.converted ?? 0
  const countError = standardErrors * Math.sqrt((1 - 1 / sampleFactor) / measured)
  const unseenError = (unseenMax * sampleFactor) / converted
  if (countError + unseenError > relativeErrorMax) return undefined
  return percent(converted, sampleFactor * measured)
}

/**
 * Reads sessions by the cheap statement; when that fails with `unusualSessionCode`, by the statement for all sessions.
 */
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
