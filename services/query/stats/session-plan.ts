import { ClickHouseError } from '@sluice/clickhouse/errors'
import type { Ask } from '../ask.ts'
import type { StatsQuestion } from './parameters.ts'
import { longSession, type SessionPlan, sessionWindowMs } from './rows.ts'
import { type RangeRow, rangeStatement } from './sql.ts'

/** From so many sessions on an answer may be taken from a sample (contract section 4); a little more, to be sure of it. */
const sampledFrom = 1_050_000
/** A sample has about so many at least: shares of it are then within 0.3 percentage points, most means within 0.5 %. */
const sampleMin = 500_000
const oneOfMax = 16

/**
 * A metric of all sessions of a range: of more than a million it asks one of 16 first, which is the answer when that are
 * enough. Buckets and groups are not for it: few of them hold a million.
 */
export async function measureSessions(question: StatsQuestion, ask: Ask): Promise<number> {
  const read = (oneOf: number): Promise<RangeRow> =>
    byPlan(oneOf, (sessions) => askRange({ ...question, sessions }, ask))
  const mayBeSampled = !question.exact && (await eventsAround(question, ask)) >= 2 * sampledFrom
  if (!mayBeSampled) return (await read(1)).value
  const sample = await read(oneOfMax)
  const oneOf = sampleFor(oneOfMax * sample.measured)
  return (oneOf === oneOfMax ? sample : await read(oneOf)).value
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

/** Of how many sessions one is enough. */
function sampleFor(sessions: number): number {
  if (sessions < sampledFrom) return 1
  let oneOf = 1
  while (oneOf < oneOfMax && sessions / (2 * oneOf) >= sampleMin) oneOf *= 2
  return oneOf
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
