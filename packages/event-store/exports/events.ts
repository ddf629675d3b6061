import type { EventKey } from '@sluice/contracts/exports'
import type { QueryParams } from '../clickhouse/client.ts'
import type { Statement } from '../clickhouse/query-runner.ts'
import { timeSql } from '../time-sql.ts'
import { columnList, type ExportColumn, type ExportRows } from './row-formats.ts'
import { type ExportScope, scopeSql } from './scope.ts'

/**
 * The events of a scope after the key `after`, up to and including the key `until`. Without `after` they begin with the
 * first event, and without `until` they end with the last one.
 */
export interface EventSlice {
  scope: ExportScope
  after: EventKey | undefined
  until: EventKey | undefined
}

const ms = (column: string): string => `toUnixTimestamp64Milli(${column})`

/** SQL of the properties as one JSON object. Its values have the types that the client sent. */
const propertiesSql = `concat('{', arrayStringConcat(arrayMap(
        (name, value) -> concat(toJSONString(toString(name)), ':', if(mapContains(property_types, name), value, toJSONString(value))),
        mapKeys(properties), mapValues(properties)), ','), '}')`

/** The columns of a file of events with their SQL, in the order of docs/http-interface.md#export-files. */
const columns: readonly (ExportColumn & { sql: string })[] = [
  { name: 'event_id', kind: 'text', sql: 'event_id' },
  { name: 'site_id', kind: 'text', sql: 'site_id' },
  { name: 'event_type', kind: 'text', sql: 'toString(event_type)' },
  { name: 'timestamp_ms', kind: 'number', sql: ms('timestamp') },
  { name: 'session_id', kind: 'text', sql: 'session_id' },
  { name: 'user_id', kind: 'text', sql: 'user_id' },
  { name: 'url', kind: 'text', sql: 'url' },
  { name: 'country', kind: 'text', sql: 'toString(country)' },
  { name: 'referrer', kind: 'text', sql: 'referrer' },
  { name: 'device_type', kind: 'text', sql: 'toString(device_type)' },
  { name: 'anonymous_id', kind: 'text', sql: 'anonymous_id' },
  { name: 'environment', kind: 'text', sql: 'toString(environment)' },
  { name: 'received_at', kind: 'number', sql: ms('received_at') },
  { name: 'properties', kind: 'json', sql: propertiesSql },
]

/** The columns of a file of events, in their order. */
export const exportedEventColumns: readonly ExportColumn[] = columns.map(({ name, kind }) => ({ name, kind }))

const order = 'timestamp, event_id, environment'

/** The events of a slice, in the order of their keys. */
export function eventExportRows(slice: EventSlice): ExportRows {
  const { join, where, params } = sliceSql(slice)
  return {
    columns: exportedEventColumns,
    sql: `
SELECT
    ${columnList(columns.map(({ sql }) => sql))}
FROM events
${join}
WHERE ${where}
ORDER BY ${order}`,
    params,
  }
}

/** A row of `sliceEndStatement`. */
export interface SliceEndRow {
  /** Number of events of the slice. The slice is the last one when it has fewer events than were requested. */
  events: number
  timestamp: number
  event_id: string
  environment: string
}

/** Selects the key of the `eventsMax`th event after a key, or of the last one if there are fewer. */
export function sliceEndStatement(slice: Omit<EventSlice, 'until'>, eventsMax: number): Statement {
  const { join, where, params } = sliceSql({ ...slice, until: undefined })
  return {
    sql: `
WITH max(key) AS last
SELECT count() AS events, ${ms('last.1')} AS timestamp, last.2 AS event_id, toString(last.3) AS environment
FROM
(
    SELECT (timestamp, event_id, environment) AS key
    FROM events
    ${join}
    WHERE ${where}
    ORDER BY ${order}
    LIMIT {events_max:UInt64}
)`,
    params: { ...params, events_max: eventsMax },
  }
}

/** A row of `edgesStatement`, in Unix ms. */
export interface EdgesRow {
  first: number
  last: number
}

/** Selects the times of the first and the last event of the site in the range, from both ends of the key's order. */
export function edgesStatement(scope: ExportScope): Statement {
  const { events, params } = scopeSql({ ...scope, filter: [], cohort: undefined })
  const edge = (direction: string): string =>
    `(SELECT ${ms('timestamp')} FROM events WHERE ${events} ORDER BY timestamp ${direction} LIMIT 1)`
  return { sql: `SELECT ifNull(${edge('ASC')}, 0) AS first, ifNull(${edge('DESC')}, 0) AS last`, params }
}

function sliceSql({ scope, after, until }: EventSlice): { join: string; where: string; params: QueryParams } {
  const { join, events, filter, cohort, params } = scopeSql(scope)
  const conditions = [
    events,
    ...(after ? [keyCondition('after', '>')] : []),
    ...(until ? [keyCondition('until', '<=')] : []),
    ...[filter, cohort].filter((condition) => condition !== undefined),
  ]
  const keys = { ...(after && keyParams('after', after)), ...(until && keyParams('until', until)) }
  return { join, where: conditions.join(' AND '), params: { ...params, ...keys } }
}

/** The condition also compares the time alone, because ClickHouse searches the primary key by that comparison. */
function keyCondition(name: 'after' | 'until', operator: '>' | '<='): string {
  const time = timeSql(`{${name}_time:Int64}`)
  const key = `(${time}, {${name}_id:String}, CAST({${name}_environment:String}, 'Enum8(\\'prod\\' = 1, \\'dev\\' = 2)'))`
  return `timestamp ${operator === '>' ? '>=' : '<='} ${time} AND (timestamp, event_id, environment) ${operator} ${key}`
}

function keyParams(name: 'after' | 'until', [time, id, environment]: EventKey): QueryParams {
  return { [`${name}_time`]: time, [`${name}_id`]: id, [`${name}_environment`]: environment }
}
