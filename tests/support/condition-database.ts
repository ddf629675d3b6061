import { randomUUID } from 'node:crypto'
import { filterSchema } from '@sluice/api/conditions'
import { type Filter, userFields } from '@sluice/contracts/conditions'
import {
  type ClickHouse,
  openClickHouseAt,
  parseClickHouseUrl,
  type QueryParams,
} from '@sluice/event-store/clickhouse/client'
import { conditionSql } from '@sluice/event-store/conditions'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { encodeEvent } from '@sluice/events/encode-event'
import { withProfile } from './clickhouse-profile.ts'
import { testClickHouse } from './engines/test-engines.ts'
import type { ConditionEvent, RawCondition } from './oracle/matches-condition.ts'

export interface ConditionDatabase {
  clickHouse: ClickHouse
  /** For each event, in order, whether it meets each of the conditions, evaluated in one statement. */
  evaluate: (events: readonly ConditionEvent[], conditions: readonly RawCondition[]) => Promise<boolean[][]>
  drop: () => Promise<void>
}

const receivedAt = Date.UTC(2024, 4, 15, 12)

/** Returns the conditions as filterSchema reads them. Throws for conditions that it refuses. */
export function filterOf(...conditions: readonly RawCondition[]): Filter {
  const result = filterSchema.validate(conditions, { convert: false })
  if (result.error) throw result.error
  return result.value
}

/**
 * Creates a migrated database. Events go through validation and the writer's insert, conditions through the schema.
 * Conditions are evaluated by a user with the settings of `profile`.
 */
export async function openConditionDatabase(
  profile: Readonly<Record<string, string | number>> = {},
): Promise<ConditionDatabase> {
  const database = testClickHouse()
  await database.create()
  const profiled = await withProfile(parseClickHouseUrl(database.readerUrl), profile)
  const clickHouse = openClickHouseAt(profiled.address)
  const inserter = openEventInserter(database.url)

  async function store(siteId: string, events: readonly ConditionEvent[]): Promise<void> {
    const lines = events.map(({ user: _, ...event }, index) => {
      const sent = { event_type: 'view', timestamp: receivedAt, ...event, site_id: siteId, event_id: String(index) }
      return encodeEvent(sent, { receivedAt, environment: 'prod' }).line
    })
    const batch = { payloads: [Buffer.from(lines.join(''))], hasUndated: false }
    await inserter.insert(batch, { queryId: siteId, shouldReplaceRunning: false, timeoutMs: 20_000 })
  }

  return {
    clickHouse,
    evaluate: async (events, conditions) => {
      const siteId = randomUUID()
      await store(siteId, events)
      const expressions = conditions.map((condition, index) =>
        conditionSql(filterOf(condition), { prefix: `c${index}` }),
      )
      const users = events.flatMap(({ user_id: id = '', user = {} }) =>
        id === '' ? [] : [[id, ...userFields.map((field) => user[field] ?? '')]],
      )
      const { rows } = await clickHouse.query<{ met: number[] }>(
        `
SELECT [${expressions.map(({ sql }) => `toUInt8(${sql})`).join(',\n')}] AS met
FROM events
${expressions.some(({ userFields: { length } }) => length > 0) ? `LEFT JOIN (${usersSql}) AS users USING (user_id)` : ''}
WHERE site_id = {site_id:String}
ORDER BY toUInt32(event_id)`,
        Object.assign(
          { site_id: siteId, users: JSON.stringify(users) },
          ...expressions.map(({ params }) => params),
        ) as QueryParams,
      )
      return rows.map(({ met }) => met.map(Boolean))
    },
    drop: async () => {
      await inserter.close()
      await clickHouse.close()
      await profiled.close()
      await database.drop()
    },
  }
}

/** A table of users within the statement, so that the tests need no import. */
const usersSql = `
SELECT fields[1] AS user_id, ${userFields.map((field, index) => `fields[${index + 2}] AS ${field}`).join(', ')}
FROM (SELECT arrayJoin(JSONExtract({users:String}, 'Array(Array(String))')) AS fields)
LIMIT 1 BY user_id`
