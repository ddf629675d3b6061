import type { Metric } from '@sluice/contracts/stats'
import { ClickHouseError } from '../clickhouse/errors.ts'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { percent } from '../percent.ts'
import { sessionWindowMs } from '../session-sql.ts'
import { countEvents } from './count-events.ts'
import { unusualSessionCode } from './row-sources.ts'
import type { SessionPlan, StatsPlan } from './spec.ts'
import { type ConvertedSessionsRow, convertedSessionsStatement, type RangeRow, rangeStatement } from './statements.ts'

/** The sizes at which a metric of sessions is estimated from a sample (docs/http-interface.md#precision). */
export interface SamplingThresholds {
  /**
   * Minimum number of events in and around the range. With fewer events, all sessions are read, which takes half a
   * second.
   */
  eventsMin: number
  /** One in this many sessions is read. */
  sampleFactor: number
  /** Minimum number of sessions in the sample. After a smaller sample, all sessions are read. */
  sampleMin: number
}

/** A sample represents at least four million sessions (16 × 250,000). */
const defaultThresholds: SamplingThresholds = { eventsMin: 16_000_000, sampleFactor: 16, sampleMin: 250_000 }

/** A metric of sessions over a range. */
export interface SessionsNumber {
  value: number
  isEstimated: boolean
  /** Whether a session began in the range. Without one, the value is 0. */
  hasSessions: boolean
}

/**
 * Measures a metric of sessions over a range without grouping. In a large range it reads a sample, by the hash of the
 * session ids, and uses the sample's value unless that is too uncertain. For an uncertain conversion rate, it counts
 * the converted sessions exactly and estimates only the number of all sessions from the sample. Buckets and groups are
 * never sampled, because few of them hold a million sessions.
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
      if (errorOf(sample, metric) <= relativeErrorMax * value) return { value, isEstimated: true, hasSessions: true }
      const rate = await conversionRate({ ...plan, sessions }, sample, runner)
      if (rate !== undefined) return { value: rate, isEstimated: true, hasSessions: true }
    }
  }
  const { row } = await read(1)
  return { value: row[metric] ?? 0, isEstimated: false, hasSessions: row.measured > 0 }
}

/** Greatest error of an estimate with 99 % confidence, as a share of the value. */
const relativeErrorMax = 0.01

/** With 99 % confidence, the mean of all sessions is within this many standard errors of the sample's mean. */
const standardErrors = 2.576

/**
 * A sample may contain no session of a certain kind. With 99 % confidence, such sessions are then fewer than this
 * number times the sample factor.
 */
const unseenMax = Math.log(100)

/**
 * The error of a sample's mean with 99 % confidence (docs/decisions/021-estimates.md). It has two terms: one from the
 * standard deviation in the sample, and one for the few longest sessions, which the sample may have missed.
 */
function errorOf({ measured, ...row }: RangeRow, metric: Metric): number {
  const deviation = row[`${metric}_deviation`] ?? Infinity
  // The greatest possible duration is that of a session, in seconds. The greatest possible share is 100 percent.
  const termMax = metric === 'avg_session_duration' ? sessionWindowMs / 1000 : 100
  return (standardErrors * deviation) / Math.sqrt(measured) + (unseenMax * termMax) / measured
}

/**
 * The conversion rate, from the number of converted sessions and the estimated number of all sessions. Converted
 * sessions are found by their events of the target type. Undefined for other metrics, for plans with further conditions
 * on sessions, and when the error may exceed 1 %. The error has two terms: that of the number of sessions, and that of
 * converted sessions of more than 24 h, a few of which the sample may have missed.
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
 * Reads sessions by the cheap statement. If that fails with `unusualSessionCode`, reads them by the statement for all
 * sessions.
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
