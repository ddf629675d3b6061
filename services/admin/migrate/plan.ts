import { missingTopics } from '@sluice/event-log/kafka/ensure-topics'
import { parseKafkaUrl } from '@sluice/event-log/kafka/url'
import { backfillUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { parseClickHouseUrl } from '@sluice/event-store/clickhouse/client'
import { storeServers } from '@sluice/event-store/clickhouse/cluster'
import { planClickHouse } from '@sluice/event-store/migrate'
import { planPostgres } from '@sluice/postgres/migrate'
import { shardStore } from '@sluice/postgres/shards'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { sum } from '@sluice/runtime/sum'
import {
  isPostgresLost,
  isStoreLost,
  lostPostgres,
  lostStore,
  type MigrateOptions,
  requireFittingLogs,
  shardsMigration,
} from './migrate.ts'

interface Planned {
  name: string
  statements: readonly { sql: string; bytes: number }[]
}

/** What `migrate` would do, for a terminal; nothing is changed. Throws what `migrate` would throw. */
export async function planText({
  postgres,
  clickHouseUrl,
  logUrl,
  acceptLoss = false,
}: MigrateOptions): Promise<string> {
  const servers = await storeServers(parseClickHouseUrl(clickHouseUrl))
  const shards = servers.length
  if (!acceptLoss && (await isPostgresLost(postgres, servers))) throw lostPostgres()
  const planned = await planPostgres(postgres)
  const hasShardsTable = planned.every(({ name }) => name !== shardsMigration)
  if (hasShardsTable) await shardStore(postgres).requireSame(shards)
  const areShardsRecorded = hasShardsTable && (await shardStore(postgres).read()) !== undefined
  const isLost = hasShardsTable && (await isStoreLost(postgres, servers))
  if (isLost && !acceptLoss) throw lostStore(servers)
  const clickHouse = await planClickHouse(clickHouseUrl)
  const topics = logUrl.startsWith('kafka:') ? await planLog(logUrl, { shards, areShardsRecorded }) : []
  return [
    ...section('Postgres', planned),
    ...clickHouse.flatMap(({ server, migrations }) =>
      section(server === undefined ? 'ClickHouse' : `ClickHouse ${server}`, migrations),
    ),
    ...(isLost ? ['The lost store: would begin an empty one, and queue all erasures again'] : []),
    topics.length === 0 ? 'Topics: up to date' : `Topics: would add ${topics.join(', ')}`,
    'Nothing was changed.',
  ].join('\n')
}

/** Names of the topics that are missing. Throws what `migrate` would throw about those that exist. */
async function planLog(logUrl: string, store: { shards: number; areShardsRecorded: boolean }): Promise<string[]> {
  const missing = await missingTopics(logUrl)
  const urls = [logUrl, backfillUrl(logUrl)].filter((url) => !missing.includes(parseKafkaUrl(url).topic))
  const logs = await Promise.all(urls.map((url) => openEventLog(url, { logger: silentLogger })))
  try {
    await requireFittingLogs(logs, store)
  } finally {
    await Promise.all(logs.map((log) => log.close()))
  }
  return missing
}

function section(engine: string, planned: readonly Planned[]): string[] {
  if (planned.length === 0) return [`${engine}: up to date`]
  const bytes = sum(planned.flatMap(({ statements }) => statements.map((statement) => statement.bytes)))
  return [
    `${engine}: would add ${planned.map(({ name }) => name).join(', ')}; reads or rewrites at most ${bytes} bytes`,
    ...planned.flatMap(({ name, statements }) => [
      `  ${name}`,
      ...statements.flatMap(({ sql, bytes: own }) => [
        ...(own > 0 ? [`    -- reads or rewrites at most ${own} bytes`] : []),
        ...`${sql};`.split('\n').map((line) => `    ${line}`),
      ]),
    ]),
  ]
}
