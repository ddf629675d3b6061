import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from '@jest/globals'
import { registerLog } from '@sluice/admin/migrate/migrate'
import type { ReshardEngines, ReshardOptions } from '@sluice/admin/reshard/reshard'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { parseClickHouseUrl, type QueryParams, withClickHouse } from '@sluice/event-store/clickhouse/client'
import { retiredDatabase } from '@sluice/event-store/clickhouse/cluster'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { openResharding } from '@sluice/event-store/reshard/resharding'
import { keyHash } from '@sluice/events/key-hash'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { internalMessage } from '@sluice/runtime/errors'
import { capturedLogger } from '../support/captured-logger.ts'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'

/** Time limit of tests that copy events. */
export const longMs = 600_000
/** Number of events that `fill` stores by default. */
export const events = 6_000

interface StoredRow {
  site_id: string
  event_id: string
}

/** An installation on the first of four servers, and functions that check it. */
class ReshardRig {
  cluster!: ClickHouseCluster
  postgres!: TestPostgres
  /** The name of the store's database before the reshard. */
  database!: string
  /** The name of the database after the reshard. */
  target!: string
  engines!: ReshardEngines
  options!: ReshardOptions
  /** The lines that the commands have printed. */
  lines: string[] = []
  private folder!: string

  async startServers(): Promise<void> {
    this.cluster = await startClickHouseCluster({
      shards: 4,
      clusters: { two: [0, 1], swapped: [1, 0], twice: [0, 0], zwölf: [0, 1] },
      // As if the tables were larger than ClickHouse drops by default.
      dropBytesMax: 1,
    })
  }

  async install(): Promise<void> {
    this.folder = await mkdtemp(join(tmpdir(), 'sluice-reshard-'))
    this.postgres = await openTestPostgres()
    this.database = `test_${randomBytes(6).toString('hex')}`
    this.target = `${this.database}_new`
    this.engines = {
      postgres: this.postgres,
      clickHouseUrl: this.serverUrl(0),
      logUrl: `file:${this.folder}/log`,
    }
    this.lines = []
    this.options = {
      cluster: 'two',
      database: this.target,
      // The writers have read the log before the doubling begins.
      placedAfterMs: -600_000,
      say: (line) => this.lines.push(line),
    }
    await migrateClickHouse(this.engines.clickHouseUrl)
    await shardStore(this.postgres).record(1)
    await this.openLog(4)
  }

  async remove(): Promise<void> {
    const { database, target } = this
    for (const name of [database, retiredDatabase(database), target, retiredDatabase(target), `${target}_4`]) {
      await this.cluster.drop(name)
    }
    await this.postgres.drop()
    await rm(this.folder, { recursive: true })
  }

  serverUrl(place: number, name = this.database): string {
    return this.cluster.servers[place]?.url(name) ?? ''
  }

  /** The log of the installation, which the writers have read until now. */
  async openLog(partitions: number): Promise<void> {
    await rm(`${this.folder}/log`, { recursive: true, force: true })
    const log = await openEventLog(this.engines.logUrl, { logger: capturedLogger().logger, file: { partitions } })
    await registerLog(this.postgres, log)
    await this.completeUntil(await log.id(), partitions, Date.now())
    await log.close()
  }

  async completeUntil(logId: string, partitions: number, until: number): Promise<void> {
    await watermarkStore(this.postgres).advance(
      logId,
      Array.from({ length: partitions }, () => until),
    )
  }

  async query<Row>(url: string, statement: string, params: QueryParams = {}): Promise<Row[]> {
    return withClickHouse(
      parseClickHouseUrl(url),
      async (clickHouse) => (await clickHouse.query<Row>(statement, params)).rows,
    )
  }

  async command(url: string, statement: string, params: QueryParams = {}): Promise<void> {
    await withClickHouse(parseClickHouseUrl(url), (clickHouse) => clickHouse.command(statement, { params }))
  }

  /** Events of three months, with ids of every kind of text, and users and a tombstone. */
  async fill(from = 0, count = events): Promise<void> {
    await this.command(
      this.engines.clickHouseUrl,
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, properties, received_at)
       SELECT concat('site-', toString(number % 3)), if(number % 5 = 0, 'dev', 'prod'), 'view',
         fromUnixTimestamp64Milli(toInt64(1767225600000 + (number % 90) * 86400000 + number), 'UTC'),
         concat(arrayElement(['e', 'é', '事', '😀'], 1 + number % 4), toString(number)), toString(number % 90), map('n', toString(number)),
         now64(3)
       FROM numbers({from:UInt64}, {count:UInt64})`,
      { from, count },
    )
    await this.command(
      this.engines.clickHouseUrl,
      `INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version)
       SELECT 'site-0', 'prod', toString(number), 'x', 'y', 'z', 'pro', number FROM numbers({from:UInt64}, 50)`,
      { from },
    )
    await this.command(
      this.engines.clickHouseUrl,
      `INSERT INTO erasures (erasure_id, site_id, key, requested_at, before, applies_until)
       SELECT toString({from:UInt64}), 'site-9', sipHash128('x'), toUnixTimestamp64Milli(now64(3)), 5, 6`,
      { from },
    )
  }

  /** Stores a tombstone whose time has passed. */
  async storeOldTombstone(): Promise<void> {
    await this.command(
      this.engines.clickHouseUrl,
      `INSERT INTO erasures (erasure_id, site_id, key, requested_at, before, applies_until)
       SELECT 'old', 'site-9', sipHash128('y'), toUnixTimestamp64Milli(now64(3) - INTERVAL 401 DAY), 5, 6`,
    )
  }

  /**
   * Expects that a store on this number of servers has `count` events, each once and on the shard of its hash, and all
   * users on each server.
   */
  async expectShards(shards: number, name: string, { count = events, users = 50 } = {}): Promise<void> {
    let total = 0
    for (let shard = 0; shard < shards; shard++) {
      const rows = await this.query<StoredRow>(this.serverUrl(shard, name), 'SELECT site_id, event_id FROM events')
      for (const { site_id, event_id } of rows) expect(keyHash(site_id, event_id) % shards).toBe(shard)
      expect(new Set(rows.map(({ site_id, event_id }) => `${site_id} ${event_id}`)).size).toBe(rows.length)
      expect(rows.length).toBeGreaterThan(count / shards / 2)
      total += rows.length
      expect(
        await this.query(
          this.serverUrl(shard, name),
          'SELECT count() AS users, (SELECT count() > 0 FROM erasures) AS tombstones FROM users FINAL',
        ),
      ).toStrictEqual([{ users, tombstones: 1 }])
    }
    expect(total).toBe(count)
  }

  /** Names of the databases of the test on all servers. */
  async databases(): Promise<string[]> {
    const found = await Promise.all(
      this.cluster.servers.map((server, place) =>
        this.query<{ name: string }>(
          server.url('default'),
          'SELECT concat(name, {place:String}) AS name FROM system.databases WHERE startsWith(name, {database:String})',
          { database: this.database, place: ` on ${place}` },
        ),
      ),
    )
    return found
      .flat()
      .map(({ name }) => name)
      .sort()
  }

  /** The reason why a service that stores events does not start. */
  async refusal(url: string): Promise<string> {
    const inserter = openEventInserter(url)
    try {
      await inserter.checkSchema()
      return ''
    } catch (error) {
      return internalMessage(error)
    } finally {
      await inserter.close()
    }
  }

  /** What the second step does first. */
  async retire(): Promise<void> {
    const resharding = await openResharding(this.engines.clickHouseUrl, this.options)
    await resharding.check()
    await resharding.retire(() => undefined)
    await resharding.close()
  }

  /** The installation's URL after the reshard. */
  newUrl(): string {
    return this.cluster.url(this.target, 'sluice', 'two')
  }
}

/** Starts the servers of a file, whose tests install and remove what they need. */
export function useReshardServers(): ReshardRig {
  const rig = new ReshardRig()
  beforeAll(() => rig.startServers())
  afterAll(() => rig.cluster.stop())
  return rig
}

/** Gives each test of a file an installation of its own. */
export function useReshard(): ReshardRig {
  const rig = useReshardServers()
  beforeEach(() => rig.install())
  afterEach(() => rig.remove())
  return rig
}
