import type { QueryResult } from '@sluice/clickhouse/client'
import { conditionError } from '@sluice/clickhouse/conditions'
import { invalidField } from '@sluice/contracts/errors'
import { type Metric, type Period, statsLimits } from '@sluice/contracts/stats'
import type { Ask } from '../ask.ts'
import { type BreakdownEntry, bucketEntries, groupEntries, typeEntries } from './breakdown.ts'
import { bucketStarts, isTimeUnit } from './buckets.ts'
import { comparedRange } from './compared-range.ts'
import { isOfSessions, type PlannedQuestion } from './measures.ts'
import type { StatsQuestion } from './parameters.ts'
import { byPlan, measureSessions } from './session-plan.ts'
import {
  type BucketRow,
  bucketsStatement,
  type GroupRow,
  groupsStatement,
  type RangeRow,
  rangeStatement,
  type TypeRow,
  typesStatement,
  type ValueRow,
} from './sql.ts'

/** What is measured over one range. */
interface Measured {
  /** Of the whole range: a count, percent with 2 decimals or seconds with 3. */
  value: number
  /** With `group_by`, and always for `event_count_by_type`. */
  breakdown?: BreakdownEntry[]
}

/** `data` of a stats answer (contract section 4), but for `timestamp`; all times are Unix ms. */
export interface StatsAnswer extends Measured {
  metric: Metric
  /** As asked, when it was. */
  period?: Period
  site_id: string
  start_date: number
  end_date: number
  timezone: string
  /** As asked, when it was. */
  group_by?: string
  /** Whatever was received until then and accepted is in it. */
  complete_until: number
  compare?: Measured & { start_date: number; end_date: number }
}

export interface AnswerDeps {
  ask: Ask
  /** Until when (Unix ms) everything accepted can be read. */
  completeUntil: () => number
}

/** Answers a question, and the same question over the range that it is compared with. */
export async function answerStats(question: StatsQuestion, { ask, completeUntil }: AnswerDeps): Promise<StatsAnswer> {
  // Asked before the events are read: what comes between is read too, and does no harm.
  const completeUntilMs = completeUntil()
  const { metric, period, siteId, start, end, timeZone, groupBy, compare } = question
  const compared = compare === undefined ? undefined : comparedQuestion(question, compare)
  const [measured, before] = await Promise.all([measure(question, ask), compared && measure(compared, ask)]).catch(
    (error: unknown) => {
      throw conditionError(error, question.conditions, 'filter')
    },
  )
  return {
    metric,
    value: measured.value,
    ...(period === undefined ? {} : { period }),
    site_id: siteId,
    start_date: start,
    end_date: end,
    timezone: timeZone,
    ...(groupBy === undefined ? {} : { group_by: groupBy }),
    ...(measured.breakdown === undefined ? {} : { breakdown: measured.breakdown }),
    complete_until: completeUntilMs,
    ...(compared && before ? { compare: { start_date: compared.start, end_date: compared.end, ...before } } : {}),
  }
}

function comparedQuestion(question: StatsQuestion, comparison: NonNullable<StatsQuestion['compare']>): StatsQuestion {
  const { groupBy, timeZone } = question
  const range = comparedRange(question, comparison, timeZone)
  return { ...question, ...range, buckets: isTimeUnit(groupBy) ? bucketStarts(range, groupBy, timeZone) : [] }
}

async function measure(question: StatsQuestion, ask: Ask): Promise<Measured> {
  if (!isOfSessions(question.metric)) return measureAsPlanned(question, ask)
  if (question.groupBy === undefined) return { value: await measureSessions(question, ask) }
  return byPlan(1, (sessions) => measureAsPlanned({ ...question, sessions }, ask))
}

async function measureAsPlanned(question: PlannedQuestion, ask: Ask): Promise<Measured> {
  const { metric, groupBy } = question
  if (metric === 'event_count_by_type') {
    const types = await ask<TypeRow>(typesStatement(question), { rowsMax: statsLimits.entriesMax, tooMany })
    return { value: totalOf(types), breakdown: typeEntries(question, types.rows) }
  }
  if (groupBy === undefined) {
    const { rows } = await ask<RangeRow>(rangeStatement(question))
    return { value: rows[0]?.value ?? 0 }
  }
  if (isTimeUnit(groupBy)) {
    const buckets = await ask<BucketRow>(bucketsStatement(question))
    return { value: totalOf(buckets), breakdown: bucketEntries(question, buckets.rows) }
  }
  const groups = await ask<GroupRow>(groupsStatement(question))
  return { value: totalOf(groups), breakdown: groupEntries(question, groupBy, groups.rows) }
}

function tooMany(): Error {
  return invalidField(
    'group_by',
    `must make at most ${statsLimits.entriesMax} pairs with event types: ask for a shorter range, longer buckets or a lower limit`,
  )
}

/** The row of WITH TOTALS. */
function totalOf({ totals }: QueryResult<ValueRow>): number {
  return totals?.value ?? 0
}
