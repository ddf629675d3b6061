import { ClickHouseError } from '../errors.ts'
import type { QueryRunner } from '../query-runner.ts'
import { overlongSessionCode, sessionWindowMs } from './row-sources.ts'
import type { SessionPlan, StatsPlan } from './spec.ts'
import { type RangeRow, rangeStatement } from './statements.ts'

/** The sizes at which a metric of sessions is estimated from a sample (docs/http-interface.md#precision). */
export interface SamplingThresholds {
  /** Events in and around the range; all sessions of fewer events are read, in half a second. */
  eventsMin: number
  /** One in so many sessions is read. */
  sampleFactor: number
  /** Sessions in the sample; after a smaller sample all sessions are read. */
  sampleMin: number
}

/**
 * A sample represents at least four million sessions (16 × 250,000). Shares are then within 0.4 percentage points, and
 * the means of most sites within 1 %.
 */
const defaultThresholds: SamplingThresholds = { eventsMin: 16_000_000, sampleFactor: 16, sampleMin: 250_000 }

/**
 * Measures a metric of sessions over a range without grouping, in large ranges from a sample by the hash of the session
 * ids. Buckets and groups are never sampled, as few of them hold a million sessions.
 */
export async function measureSessions(
  plan: StatsPlan,
  runner: QueryRunner,
  { eventsMin, sampleFactor, sampleMin } = defaultThresholds,
): Promise<number> {
  const read = (plannedSampleFactor: number): Promise<RangeRow> =>
    retryAllowingOverlong(plannedSampleFactor, (sessions) => readRange({ ...plan, sessions }, runner))
  if (!plan.exact && (await countEventsAround(plan, runner)) >= eventsMin) {
    const sample = await read(sampleFactor)
    if (sample.measured >= sampleMin) return sample.value
  }
  return (await read(1)).value
}

/**
 * Reads sessions by the cheap statement, which fails when a session continues after its 24 h; then by the one that cuts
 * such sessions.
 */
export async function retryAllowingOverlong<T>(
  sampleFactor: number,
  read: (sessions: SessionPlan) => Promise<T>,
): Promise<T> {
  try {
    return await read({ sampleFactor, allowsOverlong: false })
  } catch (error) {
    if (!(error instanceof ClickHouseError && error.serverCode === overlongSessionCode)) throw error
    return read({ sampleFactor, allowsOverlong: true })
  }
}

/** An upper bound of the sessions' events without filters, which the projection of counts answers. */
async function countEventsAround({ start, end, ...plan }: StatsPlan, runner: QueryRunner): Promise<number> {
  const { value } = await readRange(
    {
      ...plan,
      start: start - sessionWindowMs,
      end: end + sessionWindowMs,
      metric: 'event_count',
      filters: {},
      conditions: [],
    },
    runner,
  )
  return value
}

async function readRange(plan: StatsPlan, runner: QueryRunner): Promise<RangeRow> {
  const { rows } = await runner.query<RangeRow>(rangeStatement(plan))
  return rows[0] ?? { value: 0, measured: 0 }
}
