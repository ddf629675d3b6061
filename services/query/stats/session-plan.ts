import { ClickHouseError } from '@sluice/clickhouse/errors'
import type { Ask } from '../ask.ts'
import type { StatsQuestion } from './parameters.ts'
import { longSession, type SessionPlan, sessionWindowMs } from './rows.ts'
import { type RangeRow, rangeStatement } from './sql.ts'

/** When an answer is taken from a sample (contract section 4 allows it above a million sessions). */
export interface Sampling {
  /** Fewer events are read in half a second: all of them are. */
  eventsMin: number
  /** One of so many sessions is read. */
  oneOf: number
  /** With fewer in the sample all are read after all. */
  sampleMin: number
}

/** Of four million sessions at least. Shares are then within 0.4 percentage points, means of most sites within 1 %. */
const defaultSampling: Sampling = { eventsMin: 16_000_000, oneOf: 16, sampleMin: 250_000 }

/**
 * A metric of all sessions of a range, of the largest ones from a sample by the hash of their ids. Buckets and groups are
 * not for it: few of them hold a million.
 */
export async function measureSessions(
  question: StatsQuestion,
  ask: Ask,
  { eventsMin, oneOf, sampleMin } = defaultSampling,
): Promise<number> {
  const read = (plannedOneOf: number): Promise<RangeRow> =>
    byPlan(plannedOneOf, (sessions) => askRange({ ...question, sessions }, ask))
  if (!question.exact && (await eventsAround(question, ask)) >= eventsMin) {
    const sample = await read(oneOf)
    if (sample.measured >= sampleMin) return sample.value
  }
  return (await read(1)).value
}

/** Reads sessions once when none goes on after its 24 h, and again with care when one does. */
export async function byPlan<T>(oneOf: number, read: (plan: SessionPlan) => Promise<T>): Promise<T> {
  try {
    return await read({ oneOf, mayBeLong: false })
  } catch (error) {
    if (!(error instanceof ClickHouseError && error.code === longSession)) throw error
    return read({ oneOf, mayBeLong: true })
  }
}

/** What the sessions' events can be at most; the projection of counts knows. */
async function eventsAround({ start, end, ...question }: StatsQuestion, ask: Ask): Promise<number> {
  const around = { start: start - sessionWindowMs, end: end + sessionWindowMs }
  const events = await askRange({ ...question, ...around, metric: 'event_count', filters: {}, conditions: [] }, ask)
  return events.value
}

async function askRange(question: Parameters<typeof rangeStatement>[0], ask: Ask): Promise<RangeRow> {
  const { rows } = await ask<RangeRow>(rangeStatement(question))
  return rows[0] ?? { value: 0, measured: 0 }
}
