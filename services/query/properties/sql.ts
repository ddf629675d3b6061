import { eventFieldSql } from '@sluice/clickhouse/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import { seenLimits } from '@sluice/contracts/seen-properties'
import type { Statement } from '../ask.ts'
import { inScope, scopeParams } from '../event-scope.ts'

const dayMs = 24 * 3_600_000

/** Fields of an event that one chooses conditions by; ids are not chosen from a list. */
const fields = ['event_type', 'url', 'path', 'referrer', 'referrer_host', 'country', 'device_type'] as const

/** A value of a property, with how many events have it, and how many have the property. */
export interface ValueRow {
  name: string
  total: number
  value: string
  events: number
}

/**
 * The values of the most frequent properties, those of one property together: the most frequent first, equals in the
 * order of their names.
 */
export function seenStatement(asked: { siteId: string; environment: Environment | 'all'; now: number }): Statement {
  const { siteId, environment, now } = asked
  const { days, eventsMax, namesMax, valuesMax } = seenLimits
  const scope = { siteId, environment, start: now - days * dayMs, end: now }
  const pairs = fields.map((field) => `('${field}', toString(${eventFieldSql[field]}))`)
  return {
    sql: `
SELECT name, total, value, events
FROM
(
    SELECT
        name, value, events, total,
        row_number() OVER (PARTITION BY name ORDER BY events DESC, value) AS place,
        dense_rank() OVER (ORDER BY total DESC, name) AS name_place
    FROM
    (
        SELECT name, value, events, sum(events) OVER (PARTITION BY name) AS total
        FROM
        (
            SELECT pair.1 AS name, pair.2 AS value, count() AS events
            FROM
            (
                SELECT event_type, url, referrer, country, device_type, properties
                FROM events
                WHERE ${inScope(scope)}
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
ORDER BY total DESC, name, events DESC, value`,
    params: scopeParams(scope),
  }
}
