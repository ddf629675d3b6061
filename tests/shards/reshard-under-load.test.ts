import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { writerGroup } from '@sluice/event-log/writer-group'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { retiredDatabase } from '@sluice/event-store/clickhouse/cluster'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { type ErasedRows, hashValue } from '@sluice/event-store/erasures/erased-rows'
import { openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { keyHash } from '@sluice/events/key-hash'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { describeWithKafka, runOneAtATime, testKafka } from '../support/engines/test-engines.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { type ServiceProcess, spawnProgram } from '../support/service-process.ts'
import { createTestStores, type RunningWriter, runOldWriter, runWriter, type TestStores } from '../support/writer.ts'
import { type ExportedRow, importRows } from './import-rows.ts'

runOneAtATime()

const partitions = 4
const dayMs = 86_400_000
const longMs = 600_000

interface SentEvent {
  site_id: string
  event_type: string
  timestamp: number
  /** If absent, the gateway generates an id. */
  event_id?: string
  user_id: string
}

describeWithKafka('a reshard under load', () => {
  let cluster: ClickHouseCluster
  let database: string
  let target: string
  let logUrl: string
  let stores: TestStores
  let gateway: TestGateway
  const writers: RunningWriter[] = []

  beforeAll(async () => {
    cluster = await startClickHouseCluster()
  })

  afterAll(async () => {
    await cluster.stop()
  })

  beforeEach(async () => {
    database = `test_${randomBytes(6).toString('hex')}`
    target = `${database}_new`
    logUrl = testKafka()?.url ?? ''
    await ensureTopics(logUrl, { partitions })
    const url = cluster.servers[0]?.url(database) ?? ''
    stores = await createTestStores(logUrl, partitions, {
      url,
      readerUrl: url,
      create: () => migrateClickHouse(url),
      drop: () => cluster.drop(database),
    })
    gateway = await startGateway({ log: stores.log, shards: 1 })
  })

  afterEach(async () => {
    for (const writer of writers.splice(0)) await writer.stop()
    await gateway.stop()
    await stores.drop()
    for (const name of [retiredDatabase(database), target]) await cluster.drop(name)
  })

  const sent: SentEvent[] = []
  let accepted = 0

  /** Sends events of which half have ids that the gateway makes. */
  async function send(count: number, userId: string): Promise<void> {
    const events = Array.from({ length: count }, (_, n) => {
      const number = sent.length + n
      return {
        site_id: `site-${number % 3}`,
        event_type: 'view',
        timestamp: Date.now() - (number % 50) * dayMs,
        user_id: userId,
        ...(number % 2 === 0 && { event_id: `given-${number}` }),
      }
    })
    sent.push(...events)
    expect((await gateway.collectBatch({ events })).status).toBe(202)
    accepted += count
  }

  function reshard(more: readonly string[] = []): Promise<ServiceProcess> {
    return spawnProgram(
      'admin/reshard/main',
      {
        SLUICE_CLICKHOUSE_URL: stores.clickHouseUrl,
        SLUICE_POSTGRES_URL: gateway.postgres.url,
        SLUICE_LOG_URL: logUrl,
      },
      { arguments: ['--to', 'test_shards', '--database', target, ...more] },
    )
  }

  async function endOf(program: ServiceProcess): Promise<string> {
    const code = await program.exited
    if (code !== 0) throw new Error(`the command ended with ${code}: ${program.output()}`)
    return program.output()
  }

  /** Runs the command and kills it when it has printed that something is copied. */
  async function killAfterACopy(more: readonly string[] = []): Promise<void> {
    const program = await reshard(more)
    const seen = waitUntil(() => program.output().includes('are copied'), 'something is copied', 120_000)
    const end = await Promise.race([seen, program.exited])
    if (end !== undefined) throw new Error(`the command ended with ${end}: ${program.output()}`)
    program.signal('SIGKILL')
    await program.exited
  }

  async function erase(userId: string): Promise<void> {
    const { signal } = new AbortController()
    const eraser = openEventEraser(stores.clickHouseUrl)
    const runner = queryReader(stores.clickHouse).runnerFor({ key: 'test', signal, priority: 'interactive' })
    for (const siteId of ['site-0', 'site-1', 'site-2']) {
      const erased: ErasedRows = {
        erasureId: `era-${siteId}`,
        siteId,
        kind: 'user_id',
        hashes: await hashValue({ kind: 'user_id', siteId, value: userId }, runner),
        before: null,
        requestedAt: Date.now(),
      }
      await eraser.storeTombstone(erased)
      await eraser.waitForInserts(signal)
      await eraser.startDelete([erased])
      await waitUntil(async () => !(await eraser.isDeleting()), 'the deletion has ended', 60_000)
    }
    await eraser.close()
  }

  /** Waits until the writers have read the log up to its ends of now. */
  async function waitUntilRead(): Promise<void> {
    const ends = await stores.log.endOffsets()
    const group = writerGroup(await stores.inserter.storeId())
    await waitUntil(
      async () =>
        (await stores.log.committedOffsets(group)).every(({ partition, offset }) => offset >= (ends[partition] ?? 0n)),
      'the log is read up to where it ended',
      120_000,
    )
  }

  async function storedRows(): Promise<(ExportedRow & { user_id: string })[][]> {
    return Promise.all(
      cluster.servers.map(async (server) => {
        const clickHouse = openClickHouse(server.url(target))
        const { rows } = await clickHouse.query<ExportedRow & { user_id: string }>(
          `SELECT site_id, event_id, event_type, user_id, toUnixTimestamp64Milli(timestamp) AS timestamp FROM events
           ORDER BY site_id, event_id, timestamp`,
        )
        await clickHouse.close()
        return rows
      }),
    )
  }

  async function onNewServers(statement: string): Promise<void> {
    for (const server of cluster.servers) {
      const clickHouse = openClickHouse(server.url(target))
      await clickHouse.command(statement)
      await clickHouse.close()
    }
  }

  test(
    'stores every accepted event once, on the shard of its hash, with a command that is killed and a writer that goes on',
    async () => {
      const oldWriter = runWriter(stores)
      writers.push(oldWriter)
      for (let batch = 0; batch < 10; batch++) await send(200, batch < 2 ? 'ada' : 'bob')
      await waitUntilRead()
      const loadEnds = new AbortController()
      const load = (async () => {
        while (!loadEnds.signal.aborted) await send(20, 'bob')
      })()

      await killAfterACopy()
      expect(await endOf(await reshard())).toContain('Next, stop the query services')
      // A merge would hide rows that are stored twice.
      await onNewServers('SYSTEM STOP MERGES events')
      await erase('ada')

      const early = await reshard(['--finish'])
      expect([await early.exited, early.output()]).toStrictEqual([1, expect.stringContaining('Let the writers run')])
      // As after two minutes with running writers: the gateway hashes all ids, and events that it did not hash are
      // stored.
      await waitUntil(
        async () => {
          const site = `probe-${randomBytes(3).toString('hex')}`
          const events = Array.from({ length: 40 }, () => ({ site_id: site, event_type: 'view', user_id: 'probe' }))
          expect((await gateway.collectBatch({ events })).status).toBe(202)
          accepted += events.length
          return new Set((await gateway.stored(site, 40)).map(({ partition }) => partition)).size === partitions
        },
        'the gateway hashes the ids that it makes',
        60_000,
      )
      await waitUntilRead()
      await watermarkStore(gateway.postgres).advance(
        await stores.log.id(),
        Array.from({ length: partitions }, () => Date.now()),
      )
      await sql`UPDATE shards SET doubling_since = doubling_since - interval '1 hour'`.execute(gateway.postgres.db)

      await killAfterACopy(['--finish'])
      expect(await endOf(await reshard(['--finish']))).toContain('Done. ')

      await oldWriter.stop()
      const url = cluster.url(target)
      const inserter = openEventInserter(url)
      const next = { ...stores, inserter }
      await onNewServers('SYSTEM STOP MERGES events')
      writers.push(runWriter(next), runOldWriter({ ...next, backfill: gateway.backfill }))
      await send(200, 'bob')
      loadEnds.abort()
      await load
      // Copies of events that were stored before, during and after the reshard.
      const copies = sent.filter(({ event_id, user_id }) => event_id !== undefined && user_id !== 'ada')
      for (let from = 0; from < copies.length; from += 200) {
        expect((await gateway.collectBatch({ events: copies.slice(from, from + 200) })).status).toBe(202)
      }
      await waitUntilRead()

      const stored = await storedRows()
      for (const [shard, rows] of stored.entries()) {
        for (const { site_id, event_id } of rows) expect(keyHash(site_id, event_id) % 2).toBe(shard)
      }
      const erased = sent.filter(({ user_id }) => user_id === 'ada').length
      const all = stored.flat()
      const keys = new Set(all.map(({ site_id, event_id }) => `${site_id} ${event_id}`))
      expect({
        rows: all.length,
        different: keys.size,
        erased: all.filter(({ user_id }) => user_id === 'ada').length,
      }).toEqual({ rows: accepted - erased, different: accepted - erased, erased: 0 })
      const lost = copies.filter(({ site_id, event_id }) => !keys.has(`${site_id} ${event_id ?? ''}`))
      expect(lost).toStrictEqual([])

      // Exported and imported again, with the ids that the gateway made.
      for (const rows of Map.groupBy(all, ({ site_id }) => site_id).values()) {
        for (let from = 0; from < rows.length; from += 500) {
          await importRows(
            gateway.backfill,
            rows.slice(from, from + 500).map(({ user_id: _, ...row }) => row),
          )
        }
      }
      const group = writerGroup(await inserter.storeId())
      await waitUntil(
        async () =>
          (await gateway.backfill.committedOffsets(group)).every(({ offset, endOffset }) => offset === endOffset),
        'the backfill log is drained',
        120_000,
      )
      expect((await storedRows()).map((rows) => rows.length)).toStrictEqual(stored.map((rows) => rows.length))
      await inserter.close()
    },
    longMs,
  )
})
