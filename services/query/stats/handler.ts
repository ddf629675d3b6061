import type { ClickHouse, QueryResult } from '@sluice/clickhouse/client'
import { notFound } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { type BreakdownEntry, bucketEntries, typeEntries, valueEntries } from './breakdown.ts'
import { isTimeUnit } from './buckets.ts'
import { type Metric, type Period, readStatsQuestion, type StatsQuestion } from './parameters.ts'
import { type GroupRow, groupsStatement, restStatement, type Statement, type TypeRow, typesStatement } from './sql.ts'

/** What the operation needs of the others. */
export interface StatsDependencies {
  clickHouse: Pick<ClickHouse, 'query'>
  /** `isKnown` answers whether a site was registered, by hand or by its first event. */
  sites: { isKnown(siteId: string): Promise<boolean> }
}

/** `data` of a stats answer (contract section 4); all times are Unix ms. */
export interface StatsResult {
  metric: Metric
  /** Of the whole range: a count, percent with 2 decimals or seconds with 3. */
  value: number
  /** As asked, when it was. */
  period?: Period
  site_id: string
  start_date: number
  end_date: number
  timezone: 'UTC'
  /** As asked, when it was. */
  group_by?: string
  /** With `group_by`, and always for `event_count_by_type`. */
  breakdown?: BreakdownEntry[]
  timestamp: number
}

/**
 * Limits of one query. A query that passes them fails alone, as 503.
 * With `readonly` ClickHouse cancels what a client that left had asked for.
 */
const settings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  max_execution_time: 30,
  max_memory_usage: '4000000000',
} as const

/**
 * `GET /api/v1/stats` (contract section 4): answers 200 with a StatsResult.
 * Throws 400 for wrong parameters, 404 `Site not found`, ClickHouseError.
 */
export function statsHandler({ clickHouse, sites }: StatsDependencies): (request: ApiRequest) => Promise<Answer> {
  return async ({ query, credential, receivedAt, signal, log }) => {
    const question = readStatsQuestion(query, { now: receivedAt, environment: credential.environment })
    log({ site_id: question.siteId, metric: question.metric })
    if (!(await sites.isKnown(question.siteId))) throw notFound('Site')

    const ask: Ask = ({ sql, params }) => clickHouse.query(sql, params, { signal, settings })
    const { value, breakdown } = await measure(question, ask)

    const { metric, period, siteId, start, end, groupBy } = question
    const data: StatsResult = {
      metric,
      value,
      ...(period === undefined ? {} : { period }),
      site_id: siteId,
      start_date: start,
      end_date: end,
      timezone: 'UTC',
      ...(groupBy === undefined ? {} : { group_by: groupBy }),
      ...(breakdown === undefined ? {} : { breakdown }),
      timestamp: receivedAt,
    }
    return { status: 200, data }
  }
}

type Ask = <Row>(statement: Statement) => Promise<QueryResult<Row>>

/** Asks ClickHouse once, and once more when there are more groups than may be listed. */
async function measure(question: StatsQuestion, ask: Ask): Promise<{ value: number; breakdown?: BreakdownEntry[] }> {
  const { metric, groupBy, limit } = question
  if (metric === 'event_count_by_type') {
    const types = await ask<TypeRow>(typesStatement(question))
    return { value: totalOf(types), breakdown: typeEntries(question, types.rows) }
  }

  const groups = await ask<GroupRow>(groupsStatement(question))
  const value = totalOf(groups)
  if (groupBy === undefined) return { value }
  if (isTimeUnit(groupBy)) return { value, breakdown: bucketEntries(question, groupBy, groups.rows) }
  if (groups.rows.length <= limit) return { value, breakdown: valueEntries(question, groupBy, groups.rows, undefined) }

  const named = groups.rows.slice(0, limit)
  const keys = named.map(({ key }) => String(key))
  const rest = await ask<Pick<GroupRow, 'value'>>(restStatement(question, groupBy, keys))
  return { value, breakdown: valueEntries(question, groupBy, named, totalOf(rest)) }
}

/** The row of WITH TOTALS, else the single row of a statement without groups. */
function totalOf({ rows, totals }: QueryResult<{ value: number }>): number {
  return (totals ?? rows[0])?.value ?? 0
}
