import { randomUUID } from 'node:crypto'
import type { SiteDefaults } from '@sluice/access/sites'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { StatsResult } from '@sluice/contracts/stats'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import type { ApiRequest } from '@sluice/http/route'
import { statsRoute } from '@sluice/query/stats/stats'
import { apiRequest } from './api-request.ts'
import { patientReader } from './patient-reader.ts'
import { openTestStore, type TestStore } from './test-store.ts'

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
    readCompleteUntil: () => noon,
  }
}

/** Creates a store, on the server of the tests by default, with the stats operation on it. */
export async function openStatsDatabase(open: () => Promise<TestStore> = openTestStore): Promise<StatsDatabase> {
  const store = await open()
  const { reader, owner } = store

  return {
    reader,
    owner,
    siteWith: async (events) => {
      const siteId = randomUUID()
      await store.insert(
        events.map(({ at, ...fields }) => JSON.stringify({ ...plainEvent(siteId, noon + at * hour), ...fields })),
      )
      return siteId
    },
    queryStats: async (parameters, parts = {}, settings = {}) => {
      const dated = { start_date: noon, end_date: noon + 2 * hour, ...parameters }
      const query = Object.fromEntries(Object.entries(dated).map(([name, value]) => [name, String(value)]))
      const { handle } = statsRoute({ eventReader: patientReader(reader), ...allSitesKnown(settings) })
      const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
      return data as StatsResult
    },
    drop: () => store.drop(),
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
