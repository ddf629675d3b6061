import type { Actor } from '@sluice/contracts/actors'
import type { UserField } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { Range } from './calendar.ts'
import type { QueryParams } from './clickhouse/client.ts'
import { timeSql } from './time-sql.ts'

/** The events that an analysis reads. */
export interface EventScope extends Range {
  siteId: string
  environment: Environment | 'all'
}

/** SQL of the condition on rows of `events`; the range is widened by `marginMs` on both sides. */
export function scopeCondition(scope: EventScope, marginMs = 0): string {
  return [siteCondition(scope), rangeCondition(marginMs)].join(' AND ')
}

/** Today, the offset of every time zone from UTC is a multiple of a quarter of an hour. */
export const quarterMs = 15 * 60_000
/** ClickHouse's DateTime begins in 1970 and ends in 2106. */
const dateTimeEndMs = 2 ** 32 * 1000

/**
 * The start of the first and the end of the last whole quarter of a range (Unix ms); undefined when it has no whole
 * quarter.
 */
export function wholeQuarters({ start, end }: Range): Range | undefined {
  const whole = {
    start: Math.max(0, Math.ceil(start / quarterMs) * quarterMs),
    end: Math.floor(end / quarterMs) * quarterMs,
  }
  return whole.start < whole.end && whole.end < dateTimeEndMs ? whole : undefined
}

/**
 * SQL of the condition that a time is outside the whole quarters of the range. The bounds are DateTime64: with a
 * DateTime, which has whole seconds, ClickHouse's index would skip parts and granules that begin in the last second
 * before the first whole quarter.
 */
export const outsideWholeQuarters = `(timestamp < toDateTime64({first_quarter:UInt32}, 3, 'UTC') OR timestamp >= toDateTime64({end_quarter:UInt32}, 3, 'UTC'))`

/** SQL of the condition that a quarter, given by its start, is one of the whole quarters of the range. */
export function wholeQuarterCondition(quarter: string): string {
  return `${quarter} >= toDateTime({first_quarter:UInt32}, 'UTC') AND ${quarter} < toDateTime({end_quarter:UInt32}, 'UTC')`
}

/**
 * `scopeCondition` as a list of conditions, for statements that need no timestamps. Each row meets at most one of them.
 * Rows of whole quarters are compared by their column `quarter` alone, which costs a tenth
 * (docs/decisions/014-scope-columns.md).
 */
export function scopeParts(scope: EventScope): string[] {
  const whole = wholeQuarters(scope)
  if (whole === undefined) return [scopeCondition(scope)]
  const quarters = [siteCondition(scope), `indexHint(${rangeCondition(0)})`, wholeQuarterCondition('quarter')].join(
    ' AND ',
  )
  const isAligned = whole.start === scope.start && whole.end === scope.end
  return isAligned ? [quarters] : [quarters, `${scopeCondition(scope)} AND ${outsideWholeQuarters}`]
}

/**
 * The primary key finds the site's rows by `site_id`. The granules at both ends also hold rows of other sites, which
 * the column `site` excludes at a lower cost.
 */
export function siteCondition({ environment }: Pick<EventScope, 'environment'>): string {
  return `indexHint(site_id = {site_id:String}) AND site = {site_id:String}${andEnvironment(environment)}`
}

/** `siteCondition` that compares the column `site_id`, which all tables and projections have. */
export function siteIdCondition({ environment }: Pick<EventScope, 'environment'>): string {
  return `site_id = {site_id:String}${andEnvironment(environment)}`
}

function andEnvironment(environment: EventScope['environment']): string {
  return environment === 'all' ? '' : ' AND environment = {environment:String}'
}

/**
 * SQL of a condition that statements with `ORDER BY timestamp, event_id` add to the condition of their scope. With
 * `indexHint` alone, ClickHouse does not know that all rows have the same `site_id`. It then sorts the rows instead of
 * reading them in the order of the key.
 */
export const inKeyOrder = 'site_id = {site_id:String}'

/**
 * Times are compared as DateTime64 and not as integers, because ClickHouse then selects the range by the primary key.
 */
function rangeCondition(marginMs: number): string {
  return [
    `timestamp >= ${timeSql(`{start:Int64} - ${marginMs}`)}`,
    `timestamp < ${timeSql(`{end:Int64} + ${marginMs}`)}`,
  ].join(' AND ')
}

/** Values of the placeholders in all conditions of this file. */
export function scopeParams({ siteId, start, end, environment }: EventScope): QueryParams {
  const whole = wholeQuarters({ start, end })
  return {
    site_id: siteId,
    start,
    end,
    ...(whole && { first_quarter: whole.start / 1000, end_quarter: whole.end / 1000 }),
    ...(environment === 'all' ? {} : { environment }),
  }
}

/** The columns that identify users and visitors; 0 stands for none. */
export const actorKeys: Readonly<Record<Actor, string>> = { user: 'user_key', visitor: 'visitor_key' }

/**
 * SQL of the condition on a site's rows that have a user, at any time. ClickHouse reads it from the projection
 * `user_weeks`.
 */
export function userWeeksScope(scope: Pick<EventScope, 'environment'>): string {
  return `${siteIdCondition(scope)} AND user_key != 0`
}

/**
 * SQL of the join that adds these fields of users to the scope's `events`: the imported values of the user in the
 * environment of the event. The placeholders are those of `scopeParams`.
 */
export function joinUsers(scope: Pick<EventScope, 'environment'>, fields: readonly UserField[]): string {
  if (fields.length === 0) return ''
  const columns = ['environment', 'user_id', ...new Set(fields)].join(', ')
  return `LEFT JOIN (SELECT ${columns} FROM users FINAL WHERE ${siteIdCondition(scope)}) AS users USING (environment, user_id)`
}
