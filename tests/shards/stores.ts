import { randomBytes } from 'node:crypto'
import { eventColumns } from '@sluice/contracts/event-columns'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { type EventReader, openEventReader } from '@sluice/event-store/event-reader'
import { type ExportReader, openExportReader } from '@sluice/event-store/exports/export-reader'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { openResharding } from '@sluice/event-store/reshard/resharding'
import type { ClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'

/** The readers of a store. */
export interface Readers {
  events: EventReader
  exports: ExportReader
}

/** The same events and users in two stores: on one server, and on the shards of a cluster. */
export interface TwinStores {
  one: Readers
  sharded: Readers
  /** The database of the sharded store. */
  database: string
  drop(): Promise<void>
}

/** The present of the events. */
export const now = Date.UTC(2026, 0, 15, 12)
export const dayMs = 86_400_000

/**
 * Sessions of eight events within 120 days. Some sessions last longer than a day, or begin with two events of the same
 * time. One event in 50 is of the last half hour. `(n, 'x')` draws a number for a row or session.
 */
const eventsSql = `
SELECT
    if(number % 10 = 9, 'other', 'site') AS site_id,
    if(session % 7 = 0, 'dev', 'prod') AS environment,
    arrayElement(['view', 'view', 'view', 'cart', 'purchase', 'sign-up'], 1 + cityHash64(number, 'type') % 6) AS event_type,
    fromUnixTimestamp64Milli(toInt64(if(number % 50 = 0, {now:Int64} - cityHash64(number, 'late') % 1800000,
        {now:Int64} - cityHash64(session, 'start') % (120 * 86400000)
        + multiIf(number % 8 = 1, 0, session % 40 = 0, (number % 8) * 7 * 3600000, (number % 8) * 120000 + cityHash64(number, 'ms') % 1000))), 'UTC') AS timestamp,
    concat('e', toString(number)) AS event_id,
    0 AS undated,
    if(session % 9 = 0, '', concat('s', toString(session))) AS session_id,
    if(session % 3 = 0, '', concat('u', toString(cityHash64(session, 'user') % {users:UInt32}))) AS user_id,
    if(session % 5 = 0, '', concat('a', toString(cityHash64(session, 'user') % {users:UInt32}))) AS anonymous_id,
    concat('https://a.example/', toString(cityHash64(number, 'path') % 3000), '?q=', toString(number % 3)) AS url,
    arrayElement(['', 'https://search.example/x', 'https://b.example/'], 1 + session % 3) AS referrer,
    arrayElement(['DE', 'FR', 'US', ''], 1 + session % 4) AS country,
    arrayElement(['desktop', 'mobile', 'tablet'], 1 + session % 3) AS device_type,
    map('plan', if(session % 2 = 0, 'pro', 'free'), 'n', toString(number % 20)) AS properties,
    map('n', 'number') AS property_types,
    timestamp AS received_at
FROM (SELECT number, intDiv(number, 8) AS session FROM numbers({events:UInt64}))`

const usersSql = `
INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version)
SELECT 'site', if(number % 5 = 0, 'dev', 'prod'), concat('u', toString(number)), concat(toString(number), '@x.example'),
    if(version = 1, 'old', concat('n', toString(number))), toString(number % 7), if(number % 2 = 0, 'pro', 'free'), version
FROM (SELECT number, arrayJoin([1, 2]) AS version FROM numbers({users:UInt32} * 2)) WHERE number % 3 != 1`

/** Fills the store on one server, and the other one from it, as `npm run reshard` does. */
export async function openTwinStores(cluster: ClickHouseCluster, events: number): Promise<TwinStores> {
  const one = `test_${randomBytes(6).toString('hex')}`
  const database = `test_${randomBytes(6).toString('hex')}`
  const url = cluster.url(database)
  const oneUrl = cluster.servers[0]?.url(one) ?? ''
  await migrateClickHouse(oneUrl)
  const params = { now, events, users: Math.max(20, Math.round(events / 100)) }
  const columns = eventColumns.map(({ name }) => name).join(', ')
  const clickHouse = openClickHouse(oneUrl, { requestTimeoutMs: 600_000 })
  await clickHouse.command(`INSERT INTO events (${columns}) ${eventsSql}`, { params })
  await clickHouse.command(usersSql, { params })
  await clickHouse.close()
  const resharding = await openResharding(oneUrl, {
    cluster: new URL(url).searchParams.get('cluster') ?? '',
    database,
  })
  await resharding.check()
  await resharding.prepare()
  await resharding.copy(() => undefined)
  await resharding.close()
  await migrateClickHouse(url)
  const open = (readerUrl: string): Readers => ({
    events: openEventReader(readerUrl),
    exports: openExportReader(readerUrl),
  })
  const oneReaderUrl = new URL(cluster.url(one, 'sluice_reader'))
  oneReaderUrl.searchParams.delete('cluster')
  const readers = { one: open(oneReaderUrl.href), sharded: open(cluster.url(database, 'sluice_reader')) }
  return {
    ...readers,
    database,
    drop: async () => {
      for (const reader of Object.values(readers)) {
        await reader.events.close()
        await reader.exports.close()
      }
      await cluster.drop(one)
      await cluster.drop(database)
    },
  }
}
