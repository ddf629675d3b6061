import { conditionLimits } from '@sluice/contracts/conditions'
import { observedPropertiesLimits } from '@sluice/contracts/observed-properties'
import type { Environment } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import type { Statement } from '../clickhouse/query-runner.ts'
import { eventFieldSql } from '../conditions.ts'
import { inKeyOrder, scopeCondition, scopeParams } from '../event-scope.ts'

/**
 * Fields of an event that are offered for conditions. Ids are not offered, because there are too many to choose from a
 * list.
 */
const fields = ['event_type', 'url', 'path', 'referrer', 'referrer_host', 'country', 'device_type'] as const

/** The properties of a site's events of the days before `now`. */
export interface ObservedPropertiesSpec {
  siteId: string
  environment: Environment | 'all'
  /** Unix ms: later events do not count. */
  now: number
}

/** Stands for all values that are too long for a condition. No event can contain this text. */
export const longValues = '\0'

/** A value of a property. */
export interface PropertyValueRow {
  name: string
  /** Events that have the property. */
  total: number
  /** `longValues` comes last. */
  value: string
  /** Events that have the property with this value. */
  events: number
}

/**
 * Selects the values of the most frequent properties of the latest events, with the rows of one property together.
 * Properties and their values are sorted by frequency, then by name or value. ClickHouse reads the events from the end
 * of the primary key's order. It uses no buffers, which would read ahead in each part, so it reads hardly more events
 * than are needed.
 */
export function observedPropertiesStatement({ siteId, environment, now }: ObservedPropertiesSpec): Statement {
  const { days, eventsMax, namesMax, valuesMax } = observedPropertiesLimits
  const { valueLengthMax } = conditionLimits
  const scope = { siteId, environment, start: now - days * dayMs, end: now }
  const pairs = fields.map((field) => `('${field}', toString(${eventFieldSql[field]}))`)
  return {
    sql: `
SELECT name, total, value, events
FROM
(
    SELECT
        name, value, events, total,
        row_number() OVER (PARTITION BY name ORDER BY value = '\\0', events DESC, value) AS place,
        dense_rank() OVER (ORDER BY total DESC, name) AS name_place
    FROM
    (
        SELECT name, value, events, sum(events) OVER (PARTITION BY name) AS total
        FROM
        (
            SELECT pair.1 AS name, if(lengthUTF8(pair.2) > ${valueLengthMax}, '\\0', pair.2) AS value, count() AS events
            FROM
            (
                SELECT event_type, url, referrer, country, device_type, properties
                FROM events
                WHERE ${inKeyOrder} AND ${scopeCondition(scope)}
                ORDER BY timestamp DESC
                LIMIT ${eventsMax}
            )
            ARRAY JOIN arrayConcat(
                [${pairs.join(', ')}],
                arrayMap((name, value) -> (concat('properties.', name), value), mapKeys(properties), mapValues(properties))
            ) AS pair
            WHERE value != ''
            GROUP BY name, value
        )
    )
)
WHERE place <= ${valuesMax} AND name_place <= ${namesMax}
ORDER BY total DESC, name, events DESC, value
SETTINGS read_in_order_use_buffering = 0`,
    params: scopeParams(scope),
  }
}
