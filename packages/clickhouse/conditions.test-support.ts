import { type Filter, filterSchema, userFields } from '@sluice/contracts/conditions'
import { toEventRow } from '@sluice/contracts/event'
import { testClickHouse } from '@sluice/engines/testing'
import { randomUUID } from 'node:crypto'
import type { AskedCondition, ConditionEvent } from '../../tests/oracle/matches-condition.ts'
import { type ClickHouse, openClickHouse, parseClickHouseUrl, type QueryParams } from './client.ts'
import { conditionSql } from './conditions.ts'
import { eventInserter } from './insert-events.ts'
import { migrateClickHouse } from './migrate.ts'

export interface ConditionDatabase {
  clickHouse: ClickHouse
  /** For each event, in order, whether it meets each of the conditions: all asked in one statement. */
  ask: (events: readonly ConditionEvent[], conditions: readonly AskedCondition[]) => Promise<boolean[][]>
  drop: () => Promise<void>
}

const receivedAt = Date.UTC(2024, 4, 15, 12)

/** The list as filterSchema returns it. Throws when it refuses it. */
export function filterOf(...conditions: readonly AskedCondition[]): Filter {
  const result = filterSchema.validate(conditions, { convert: false })
  if (result.error) throw result.error
  return result.value
}

/** A migrated database of its own. Events go through validation and the writer's insert, conditions through the schema. */
export async function openConditionDatabase(): Promise<ConditionDatabase> {
  const database = testClickHouse()
  await migrateClickHouse(database.url)
  const clickHouse = openClickHouse(database.readerUrl)
  const inserter = eventInserter(parseClickHouseUrl(database.url))

  async function store(siteId: string, events: readonly ConditionEvent[]): Promise<void> {
    const lines = events.map(({ user: _, ...event }, index) => {
      const sent = { event_type: 'view', timestamp: receivedAt, ...event, site_id: siteId, event_id: String(index) }
      const { row } = toEventRow(sent, { receivedAt, environment: 'prod', newEventId: randomUUID })
      return JSON.stringify(row)
    })
    const batch = { payloads: [Buffer.from(lines.join('\n'))], undated: false }
    await inserter.insert(batch, { queryId: siteId, replaceRunning: false, timeoutMs: 20_000 })
  }

  return {
    clickHouse,
    ask: async (events, conditions) => {
      const siteId = randomUUID()
      await store(siteId, events)
      const asked = conditions.map((condition, index) => conditionSql(filterOf(condition), { prefix: `c${index}` }))
      const users = events.flatMap(({ user_id: id = '', user = {} }) =>
        id === '' ? [] : [[id, ...userFields.map((field) => user[field] ?? '')]],
      )
      const { rows } = await clickHouse.query<{ met: number[] }>(
        `
SELECT [${asked.map(({ sql }) => `toUInt8(${sql})`).join(',\n')}] AS met
FROM events
${asked.some(({ userFields: { length } }) => length > 0) ? `LEFT JOIN (${usersSql}) AS users USING (user_id)` : ''}
WHERE site_id = {site_id:String}
ORDER BY toUInt32(event_id)`,
        Object.assign(
          { site_id: siteId, users: JSON.stringify(users) },
          ...asked.map(({ params }) => params),
        ) as QueryParams,
      )
      return rows.map(({ met }) => met.map(Boolean))
    },
    drop: async () => {
      inserter.close()
      await clickHouse.close()
      await database.drop()
    },
  }
}

/** Users as the statement's own table: imports, which store them, are not built yet. */
const usersSql = `
SELECT fields[1] AS user_id, ${userFields.map((field, index) => `fields[${index + 2}] AS ${field}`).join(', ')}
FROM (SELECT arrayJoin(JSONExtract({users:String}, 'Array(Array(String))')) AS fields)
LIMIT 1 BY user_id`
