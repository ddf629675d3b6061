import type { Criteria, Filter } from '@sluice/contracts/conditions'
import { latestMs } from '@sluice/contracts/stats'
import type { QueryParams } from '../clickhouse/client.ts'
import type { SqlFragment, Statement } from '../clickhouse/query-runner.ts'
import { membersStatement } from '../cohorts/members.ts'
import { conditionSql } from '../conditions.ts'
import { type EventScope, joinUsers, siteIdCondition } from '../event-scope.ts'
import { timeSql } from '../time-sql.ts'

/**
 * The events that an export reads. An export of users or sessions holds those that the events belong to. All times are
 * Unix ms.
 */
export interface ExportScope extends Pick<EventScope, 'siteId' | 'environment'> {
  /** Range of the timestamps: from `start`, until before `end`. Undefined: no limit. */
  start: number | undefined
  end: number | undefined
  /** Range of the times of receipt: from `receivedFrom`, until before `receivedUntil`. Undefined: no limit. */
  receivedFrom: number | undefined
  receivedUntil: number
  /** Conditions that an event must meet. For users and sessions, at least one of their events must meet them. */
  filter: Filter
  /**
   * Only the users of a cohort. The events until `now` that were received before `receivedUntil` decide who is in it.
   * Statements evaluate the criteria, unless `members` lists the members.
   */
  cohort: { criteria: Criteria; now: number; members?: MemberLists } | undefined
}

/** The keys of a cohort's members, in lists that ClickHouse reads as `Array(UInt64)`, such as `[1,2]`. */
export type MemberLists = readonly string[]

/** The parts of statements over the events of a scope. */
export interface ScopeSql {
  /** The join that `filter` needs. */
  join: string
  /** The events of the site, the environment and the ranges. */
  events: string
  /** The condition of the filter on an event; undefined without one. */
  filter: string | undefined
  /** The condition that an event's user is in the cohort; undefined without one. */
  cohort: string | undefined
  params: QueryParams
}

/**
 * The condition compares `site_id`, and not the column `site` as analyses do. ClickHouse can then read a site's events
 * in the order of their key, so that a slice takes time for its own events only and not for those after it.
 */
export function scopeSql(scope: ExportScope, { widenedByMs = 0 } = {}): ScopeSql {
  const { siteId, environment, start = 0, end = latestMs, receivedFrom = 0, receivedUntil } = scope
  const filter = conditionSql(scope.filter, { prefix: 'filter' })
  const members = scope.cohort && cohortSql(scope, scope.cohort)
  return {
    join: joinUsers(scope, filter.userFields),
    events: [
      siteIdCondition(scope),
      `timestamp >= ${timeSql(`{range_start:Int64} - ${widenedByMs}`)}`,
      `timestamp < ${timeSql(`{range_end:Int64} + ${widenedByMs}`)}`,
      `received_at >= ${timeSql('{received_from:Int64}')}`,
      `received_at < ${timeSql('{received_until:Int64}')}`,
    ].join(' AND '),
    filter: scope.filter.length === 0 ? undefined : filter.sql,
    cohort: members?.sql,
    params: {
      ...members?.params,
      ...filter.params,
      site_id: siteId,
      ...(environment === 'all' ? {} : { environment }),
      range_start: start,
      range_end: end,
      received_from: receivedFrom,
      received_until: receivedUntil,
    },
  }
}

/** Selects the members of the scope's cohort, as `membersStatement` does. */
export function cohortMembers(
  { siteId, environment, receivedUntil }: ExportScope,
  { criteria, now }: NonNullable<ExportScope['cohort']>,
): Statement {
  return membersStatement(criteria, { siteId, environment, now, receivedUntil })
}

function cohortSql(scope: ExportScope, cohort: NonNullable<ExportScope['cohort']>): SqlFragment {
  if (cohort.members) return memberCondition(cohort.members)
  const { sql, params } = cohortMembers(scope, cohort)
  return { sql: `user_key IN (SELECT user_key FROM (${sql}))`, params }
}

function memberCondition(lists: MemberLists): SqlFragment {
  if (lists.length === 0) return { sql: 'false', params: {} }
  const placeholders = lists.map((_, index) => `{members_${index}:Array(UInt64)}`)
  return {
    sql: `user_key IN arrayConcat(${placeholders.join(', ')})`,
    params: Object.fromEntries(lists.map((list, index) => [`members_${index}`, list])),
  }
}
