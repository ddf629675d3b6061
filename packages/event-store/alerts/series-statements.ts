import { defaultConversionEvent } from '@sluice/contracts/sites'
import type { Range } from '../calendar.ts'
import type { QueryParams } from '../clickhouse/client.ts'
import type { Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { type EventScope, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import { distinctKeyColumns } from '../metric-keys.ts'
import { type SessionMetricSql, sessionMetricSql } from '../session-metrics.ts'
import { sessionWindowMs } from '../session-sql.ts'
import type { AlertSpec } from './alert-spec.ts'

/** A row of `minutesStatement`. */
export interface MinuteRow {
  /** Minutes since 1970. */
  minute: number
  events: number
}

/** A row of `pointsStatement`. */
export interface PointRow {
  /** Number of the point in its grid, from 0. */
  point: number
  value: number
}

/** Evenly spaced ends of windows; times are whole minutes, in ms. */
export interface PointGrid {
  first: number
  stepMs: number
  points: number
}

/** Selects the number of events in each minute of the range. Minutes without events have no row. */
export function minutesStatement(spec: AlertSpec, range: Range): Statement {
  const events = eventsSql(spec, range)
  return {
    sql: `
SELECT intDiv(toUnixTimestamp64Milli(timestamp), 60000) AS minute, count() AS events
${events.from} AND ${events.matches}
GROUP BY minute`,
    params: events.params,
  }
}

/**
 * Selects a metric over the window that ends at each point of a grid. Points without users or sessions have no row.
 * Throws TypeError for numbers of events, which `minutesStatement` reads.
 */
export function pointsStatement(spec: AlertSpec, grid: PointGrid): Statement {
  const { metric } = spec
  switch (metric) {
    case 'event_count':
    case 'event_count_by_type':
      throw new TypeError('a number of events has a statement of its own')
    case 'unique_users':
    case 'unique_sessions':
    case 'visitors':
      return distinctStatement(spec, grid, distinctKeyColumns[metric])
    case 'avg_session_duration':
    case 'bounce_rate':
    case 'conversion_rate':
      return sessionsStatement(spec, grid, sessionMetricSql[metric])
  }
}

/**
 * Distinct keys are read by minute. A key counts in every window that contains its minute, so windows need not begin at
 * a point of the grid.
 */
function distinctStatement(spec: AlertSpec, grid: PointGrid, key: string): Statement {
  const { windowMs } = spec
  const last = grid.first + (grid.points - 1) * grid.stepMs
  const events = eventsSql(spec, { start: grid.first - windowMs, end: last })
  return {
    sql: `
SELECT arrayJoin(${pointsAfter('minute * 60000', grid)}) AS point, uniqExact(key) AS value
FROM
(
    SELECT DISTINCT intDiv(toUnixTimestamp64Milli(timestamp), 60000) AS minute, ${key} AS key
    ${events.from} AND ${events.matches} AND ${key} != 0
)
GROUP BY point`,
    params: { ...events.params, ...gridParams(grid, windowMs) },
  }
}

/**
 * Each session counts in every window that it starts in, with its events before the window's end. It starts at its
 * first event in the window, unless the 24 h before the window have one.
 */
function sessionsStatement(spec: AlertSpec, grid: PointGrid, { term, valueSql }: SessionMetricSql): Statement {
  const { windowMs, targetEvent = defaultConversionEvent } = spec
  const last = grid.first + (grid.points - 1) * grid.stepMs
  const events = eventsSql(spec, { start: grid.first - windowMs - sessionWindowMs, end: last })
  return {
    sql: `
SELECT point, ${valueSql(`sum(${term})`, 'count()')} AS value
FROM
(
    SELECT
        point,
        arrayFilter(event -> event.1 < end_ms, session) AS known,
        arrayMax(event -> event.1, known) - started_ms AS duration_ms,
        length(known) AS event_count,
        arrayExists(event -> event.2 = 1, known) AS is_converted
    FROM
    (
        SELECT
            started_ms,
            session,
            arrayJoin(${pointsAfter('started_ms', grid)}) AS point,
            {first_point:Int64} + point * {step_ms:Int64} AS end_ms,
            before_ms
        FROM
        (
            SELECT
                ordered[i].1 AS started_ms,
                if(i = 1, toInt64(0), ordered[i - 1].1) AS before_ms,
                arrayFilter(event -> event.1 >= started_ms AND event.1 < started_ms + ${sessionWindowMs}, ordered) AS session
            FROM
            (
                SELECT arraySort(groupArray((toUnixTimestamp64Milli(timestamp), toUInt8(event_type = {target_event:String}), toUInt8(${events.matches})))) AS ordered
                ${events.from} AND session_key != 0
                GROUP BY session_key
            )
            ARRAY JOIN arrayEnumerate(ordered) AS i
            WHERE i = 1 OR ordered[i].1 - ordered[i - 1].1 > ${sessionWindowMs}
        )
    )
    WHERE before_ms < end_ms - {window_ms:Int64} - ${sessionWindowMs} AND arrayExists(event -> event.3 = 1, known)
)
GROUP BY point`,
    params: { ...events.params, ...gridParams(grid, windowMs), target_event: targetEvent },
  }
}

/** SQL of the list of points whose windows contain a time (Unix ms). The window of a point ends at the point. */
function pointsAfter(time: string, { points }: PointGrid): string {
  const pointAt = (ms: string): string => `toInt64(floor((${ms} - {first_point:Int64}) / {step_ms:Int64}))`
  return `range(greatest(0, ${pointAt(time)} + 1), least(${points}, ${pointAt(`${time} + {window_ms:Int64}`)} + 1))`
}

function gridParams({ first, stepMs }: PointGrid, windowMs: number): QueryParams {
  return { first_point: first, step_ms: stepMs, window_ms: windowMs }
}

interface EventsSql {
  /** `FROM … WHERE …` of the events of the range. */
  from: string
  /** SQL of the condition that an event matches the spec's type and filter. */
  matches: string
  params: QueryParams
}

function eventsSql({ siteId, environment, eventType, filter = [] }: AlertSpec, range: Range): EventsSql {
  const scope: EventScope = { siteId, environment, ...range }
  const condition = conditionSql(filter, { prefix: 'filter' })
  return {
    from: `FROM events ${joinUsers(scope, condition.userFields)} WHERE ${scopeCondition(scope)}`,
    matches: [condition.sql, ...(eventType === undefined ? [] : ['event_type = {event_type:String}'])].join(' AND '),
    params: {
      ...scopeParams(scope),
      ...condition.params,
      ...(eventType === undefined ? {} : { event_type: eventType }),
    },
  }
}
