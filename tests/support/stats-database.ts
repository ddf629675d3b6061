import { randomUUID } from 'node:crypto'
import type { SiteDefaults } from '@sluice/access/sites'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { StatsResult } from '@sluice/contracts/stats'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/client'
import { openEventInserter } from '@sluice/event-store/insert/insert-events'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { queryRunners } from '@sluice/event-store/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { statsRoute } from '@sluice/query/stats/stats'
import { apiRequest } from './api-request.ts'
import { testClickHouse } from './engines/test-engines.ts'

/** An event to store; `at` counts hours from noon, fields left out get plain values. */
export type StoredEvent = Partial<EventRow> & { at: number }

/** Parameters of a stats request; dates left out are noon and two hours later. */
export interface RawStatsParameters extends Record<string, string | number> {
  site_id: string
  metric: string
}

export interface StatsDatabase {
  /** The database as the read-only user, and as the user with all rights. */
  reader: ClickHouse
  owner: ClickHouse
  /** Stores events as the writer does, under a site of their own; returns its id. */
  siteWith: (events: readonly StoredEvent[]) => Promise<string>
  /** Returns `data` of the response to a request with a key that has all rights. */
  queryStats: (
    parameters: RawStatsParameters,
    parts?: Partial<ApiRequest>,
    settings?: SiteSettings,
  ) => Promise<StatsResult>
  drop: () => Promise<void>
}

/** 12:00 UTC of a day, the present of the tests. */
export const noon = Date.UTC(2024, 4, 15, 12)
export const hour = 3_600_000

type SiteSettings = { [Name in keyof SiteDefaults]?: SiteDefaults[Name] | undefined }

/** The other dependencies of reads: every site is known and has no settings of its own. */
export function allSitesKnown({ timezone = 'UTC', conversion_event = null }: SiteSettings = {}) {
  return {
    sites: { find: () => Promise.resolve({ settings: { timezone, conversion_event } }) },
    completeUntil: () => noon,
  }
}

/** Creates a migrated ClickHouse database, with the stats operation on it. */
export async function openStatsDatabase(): Promise<StatsDatabase> {
  const database = testClickHouse()
  await migrateClickHouse(database.url)
  const reader = openClickHouse(database.readerUrl)
  const owner = openClickHouse(database.url)
  const inserter = openEventInserter(database.url)

  return {
    reader,
    owner,
    siteWith: async (events) => {
      const siteId = randomUUID()
      const lines = events.map(({ at, ...fields }) =>
        JSON.stringify({ ...plainEvent(siteId, noon + at * hour), ...fields }),
      )
      const batch = { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false }
      await inserter.insert(batch, { queryId: siteId, replaceRunning: false, timeoutMs: 10_000 })
      return siteId
    },
    queryStats: async (parameters, parts = {}, settings = {}) => {
      const dated = { start_date: noon, end_date: noon + 2 * hour, ...parameters }
      const query = Object.fromEntries(Object.entries(dated).map(([name, value]) => [name, String(value)]))
      const { handle } = statsRoute({ eventReader: queryRunners(reader), ...allSitesKnown(settings) })
      const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
      return data as StatsResult
    },
    drop: async () => {
      await inserter.close()
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
