import { type ClickHouse, openClickHouse, parseClickHouseUrl } from '@sluice/clickhouse/client'
import { eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import type { EventRow } from '@sluice/contracts/event-row'
import { testClickHouse } from '@sluice/engines/testing'
import type { ApiRequest } from '@sluice/http/route'
import { randomUUID } from 'node:crypto'
import type { StatsAnswer } from '../services/query/stats/answer.ts'
import { statsHandler } from '../services/query/stats/handler.ts'
import type { SiteDefaults } from '../services/query/stats/parameters.ts'
import { apiRequest } from './api-request.ts'

/** An event to store; `at` counts hours from noon, fields left out get plain values. */
export type SentEvent = Partial<EventRow> & { at: number }

/** Parameters of a stats request; dates left out are noon and two hours later. */
export interface AskedStats extends Record<string, string | number> {
  site_id: string
  metric: string
}

export interface StatsDatabase {
  /** The database as the user who reads and the one who may do all. */
  reader: ClickHouse
  owner: ClickHouse
  /** Stores events as the writer does, under a site of their own; returns its id. */
  siteWith: (events: readonly SentEvent[]) => Promise<string>
  /** `data` of the answer to a request that everything allows. */
  ask: (asked: AskedStats, parts?: Partial<ApiRequest>, settings?: SiteSettings) => Promise<StatsAnswer>
  drop: () => Promise<void>
}

/** 12:00 UTC of a day: the tests' now. */
export const noon = Date.UTC(2024, 4, 15, 12)
export const hour = 3_600_000

type SiteSettings = { [Name in keyof SiteDefaults]?: SiteDefaults[Name] | undefined }

/** What reads need besides ClickHouse, of sites that are all known and have no settings of their own. */
export function everySite({ timezone = 'UTC', conversion_event = null }: SiteSettings = {}) {
  return {
    sites: { find: () => Promise.resolve({ settings: { timezone, conversion_event } }) },
    completeUntil: () => noon,
  }
}

/** A migrated ClickHouse database of its own, and the stats operation on it. */
export async function openStatsDatabase(): Promise<StatsDatabase> {
  const database = testClickHouse()
  await migrateClickHouse(database.url)
  const reader = openClickHouse(database.readerUrl)
  const owner = openClickHouse(database.url)
  const inserter = eventInserter(parseClickHouseUrl(database.url))

  return {
    reader,
    owner,
    siteWith: async (events) => {
      const siteId = randomUUID()
      const lines = events.map(({ at, ...fields }) =>
        JSON.stringify({ ...plainEvent(siteId, noon + at * hour), ...fields }),
      )
      const batch = { payloads: [Buffer.from(lines.join('\n'))], undated: false }
      await inserter.insert(batch, { queryId: siteId, replaceRunning: false, timeoutMs: 10_000 })
      return siteId
    },
    ask: async (asked, parts = {}, settings = {}) => {
      const dated = { start_date: noon, end_date: noon + 2 * hour, ...asked }
      const query = Object.fromEntries(Object.entries(dated).map(([name, value]) => [name, String(value)]))
      const handle = statsHandler({ clickHouse: reader, ...everySite(settings) })
      const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
      return data as StatsAnswer
    },
    drop: async () => {
      inserter.close()
      await reader.close()
      await owner.close()
      await database.drop()
    },
  }
}

function plainEvent(siteId: string, timestamp: number): EventRow {
  return {
    site_id: siteId,
    environment: 'prod',
    event_type: 'page_view',
    event_id: randomUUID(),
    timestamp,
    received_at: timestamp,
  }
}
