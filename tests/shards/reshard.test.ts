import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { migrate, registerLog } from '@sluice/admin/migrate/migrate'
import {
  cancelReshard,
  copyEvents,
  finishReshard,
  planReshard,
  type ReshardEngines,
  type ReshardOptions,
} from '@sluice/admin/reshard/reshard'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { openClickHouse, type QueryParams } from '@sluice/event-store/client'
import { retiredDatabase } from '@sluice/event-store/cluster'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { openResharding } from '@sluice/event-store/reshard/resharding'
import { openReshardServers } from '@sluice/event-store/reshard/servers'
import { keyHash } from '@sluice/events/key-hash'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { internalMessage } from '@sluice/runtime/errors'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../support/captured-logger.ts'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'

const longMs = 240_000
const events = 6_000

let cluster: ClickHouseCluster
let folder: string
let postgres: TestPostgres
let database: string
/** The name of the database after the reshard. */
let target: string
let engines: ReshardEngines
let options: ReshardOptions
let lines: string[]

beforeAll(async () => {
  cluster = await startClickHouseCluster({
    shards: 4,
    clusters: { two: [0, 1], swapped: [1, 0], twice: [0, 0], zwölf: [0, 1] },
    // As with tables that are larger than what ClickHouse drops by default.
    dropBytesMax: 1,
  })
}, 120_000)

afterAll(async () => {
  await cluster.stop()
})

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-reshard-'))
  postgres = await openTestPostgres()
  database = `test_${randomBytes(6).toString('hex')}`
  target = `${database}_new`
  engines = { postgres, clickHouseUrl: serverUrl(0), logUrl: `file:${folder}/log` }
  lines = []
  options = { cluster: 'two', database: target, placedAfterMs: 0, say: (line) => lines.push(line) }
  await migrateClickHouse(engines.clickHouseUrl)
  await shardStore(postgres).fix(1)
  await openLog(4)
})

afterEach(async () => {
  for (const name of [database, retiredDatabase(database), target, retiredDatabase(target), `${target}_4`]) {
    await cluster.drop(name)
  }
  await postgres.drop()
  await rm(folder, { recursive: true })
})

function serverUrl(place: number, name = database): string {
  return cluster.servers[place]?.url(name) ?? ''
}

/** The log of the installation, which the writers have read until now. */
async function openLog(partitions: number): Promise<void> {
  await rm(`${folder}/log`, { recursive: true, force: true })
  const log = await openEventLog(engines.logUrl, { logger: capturedLogger().logger, file: { partitions } })
  await registerLog(postgres, log)
  await completeUntil(await log.id(), partitions, Date.now() + 600_000)
  await log.close()
}

async function completeUntil(logId: string, partitions: number, until: number): Promise<void> {
  await watermarkStore(postgres).advance(
    logId,
    Array.from({ length: partitions }, () => until),
  )
}

async function query<Row>(url: string, statement: string, params: QueryParams = {}): Promise<Row[]> {
  const clickHouse = openClickHouse(url)
  try {
    return (await clickHouse.query<Row>(statement, params)).rows
  } finally {
    await clickHouse.close()
  }
}

async function command(url: string, statement: string, params: QueryParams = {}): Promise<void> {
  const clickHouse = openClickHouse(url)
  try {
    await clickHouse.command(statement, { params })
  } finally {
    await clickHouse.close()
  }
}

/** Events of three months, with ids of every kind of text, and users and a tombstone. */
async function fill(from = 0, count = events): Promise<void> {
  await command(
    engines.clickHouseUrl,
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, properties, received_at)
     SELECT concat('site-', toString(number % 3)), if(number % 5 = 0, 'dev', 'prod'), 'view',
       fromUnixTimestamp64Milli(toInt64(1767225600000 + (number % 90) * 86400000 + number), 'UTC'),
       concat(arrayElement(['e', 'é', '事', '😀'], 1 + number % 4), toString(number)), toString(number % 90), map('n', toString(number)),
       now64(3)
     FROM numbers({from:UInt64}, {count:UInt64})`,
    { from, count },
  )
  await command(
    engines.clickHouseUrl,
    `INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version)
     SELECT 'site-0', 'prod', toString(number), 'x', 'y', 'z', 'pro', number FROM numbers({from:UInt64}, 50)`,
    { from },
  )
  await command(
    engines.clickHouseUrl,
    `INSERT INTO erasures (erasure_id, site_id, key, requested_at, before, applies_until)
     SELECT toString({from:UInt64}), 'site-9', sipHash128('x'), toUnixTimestamp64Milli(now64(3)), 5, 6`,
    { from },
  )
}

/** Stores a tombstone whose time has passed. */
async function storeOldTombstone(): Promise<void> {
  await command(
    engines.clickHouseUrl,
    `INSERT INTO erasures (erasure_id, site_id, key, requested_at, before, applies_until)
     SELECT 'old', 'site-9', sipHash128('y'), toUnixTimestamp64Milli(now64(3) - INTERVAL 401 DAY), 5, 6`,
  )
}

interface StoredRow {
  site_id: string
  event_id: string
}

/** Expects that a store on so many servers has `count` events, once, each on the shard of its hash, and all users on each. */
async function expectShards(shards: number, name: string, { count = events, users = 50 } = {}): Promise<void> {
  let total = 0
  for (let shard = 0; shard < shards; shard++) {
    const rows = await query<StoredRow>(serverUrl(shard, name), 'SELECT site_id, event_id FROM events')
    for (const { site_id, event_id } of rows) expect(keyHash(site_id, event_id) % shards).toBe(shard)
    expect(new Set(rows.map(({ site_id, event_id }) => `${site_id} ${event_id}`)).size).toBe(rows.length)
    expect(rows.length).toBeGreaterThan(count / shards / 2)
    total += rows.length
    expect(
      await query(
        serverUrl(shard, name),
        'SELECT count() AS users, (SELECT count() > 0 FROM erasures) AS tombstones FROM users FINAL',
      ),
    ).toStrictEqual([{ users, tombstones: 1 }])
  }
  expect(total).toBe(count)
}

/** Names of the databases of the test on all servers. */
async function databases(): Promise<string[]> {
  const found = await Promise.all(
    cluster.servers.map((server, place) =>
      query<{ name: string }>(
        server.url('default'),
        'SELECT concat(name, {place:String}) AS name FROM system.databases WHERE startsWith(name, {database:String})',
        { database, place: ` on ${place}` },
      ),
    ),
  )
  return found
    .flat()
    .map(({ name }) => name)
    .sort()
}

/** Why a service that stores events does not start. */
async function refusal(url: string): Promise<string> {
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
async function retire(): Promise<void> {
  const resharding = await openResharding(engines.clickHouseUrl, options)
  await resharding.check()
  await resharding.retire()
  await resharding.close()
}

const newUrl = (): string => cluster.url(target, 'sluice', 'two')
const isCopied = (line: string): boolean => line.includes('are copied')

test(
  'one server becomes two, and two become four',
  async () => {
    await fill()
    await copyEvents(engines, options)
    await fill(events, 1_000)
    await finishReshard(engines, options)
    await expectShards(2, target, { count: 7_000, users: 50 + 50 })
    expect(await shardStore(postgres).readState()).toStrictEqual({ number: 2, doublingSince: null })
    expect(lines.at(-1)).toContain(`by /${target}?cluster=two,`)
    expect(await refusal(newUrl())).toBe('')
    const elsewhere = finishReshard(engines, { ...options, database: `${target}_4` })
    await expect(elsewhere).rejects.toMatchObject({
      internal: expect.stringMatching(/and not into the database/) as unknown,
    })
    // Neither into another store of as many shards.
    const other = `${target}_4`
    await migrateClickHouse(cluster.url(other, 'sluice', 'two'))
    await expect(finishReshard(engines, { ...options, database: other })).rejects.toMatchObject({
      internal: expect.stringMatching(/and not into the database/) as unknown,
    })
    await cluster.drop(other)
    // A repeat finds nothing to do, and nothing can be given up any more.
    await finishReshard(engines, options)
    await expect(cancelReshard(engines, options)).rejects.toMatchObject({ code: 'internal' })

    const four = { ...options, cluster: 'test_shards', database: `${target}_4` }
    engines = { ...engines, clickHouseUrl: newUrl() }
    await copyEvents(engines, four)
    await finishReshard(engines, four)
    await expectShards(4, four.database, { count: 7_000, users: 100 })
    expect(await shardStore(postgres).read()).toBe(4)
    expect(await refusal(cluster.url(four.database))).toBe('')
  },
  longMs,
)

test(
  'a plan says what each server gets, and changes nothing',
  async () => {
    await fill()
    const before = await databases()
    await planReshard(engines, options)
    expect(lines).toStrictEqual([
      expect.stringMatching(
        /^http:\/\/127\.0\.0\.1:\d+: about 3,000 events of http.*, [\d,]+ bytes to write, [\d,]+ bytes are free$/,
      ),
      expect.stringMatching(/^http:\/\/127\.0\.0\.2:\d+: about 3,000 events of http:\/\/127\.0\.0\.1/),
      'Nothing was changed.',
    ])
    expect(await databases()).toStrictEqual(before)
    expect(await shardStore(postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
  },
  longMs,
)

describe('a reshard that is cut', () => {
  /** Runs a step that is cut after each copy that it makes, until it ends. */
  async function runCutting(step: typeof copyEvents): Promise<number> {
    for (let cuts = 0; ; cuts++) {
      const say = (line: string): void => {
        if (isCopied(line)) throw new Error('cut')
      }
      try {
        await step(engines, { ...options, say })
        return cuts
      } catch (error) {
        if (!internalMessage(error).startsWith('cut')) throw error
      }
    }
  }

  test(
    'goes on after each month, in both steps',
    async () => {
      await fill()
      expect(await runCutting(copyEvents)).toBeGreaterThan(8)
      await fill(events, 1_000)
      expect(await runCutting(finishReshard)).toBeGreaterThan(4)
      await expectShards(2, target, { count: 7_000, users: 100 })
    },
    longMs,
  )

  test(
    'refuses services and migrations of both URLs meanwhile, each with what to do, and then goes on',
    async () => {
      await fill()
      await copyEvents(engines, options)
      expect(await refusal(newUrl())).toMatch(/is being filled by "npm run reshard"/)
      await expect(migrate({ ...engines, clickHouseUrl: newUrl() })).rejects.toMatchObject({
        internal: expect.stringMatching(/Only "npm run reshard" changes the number of shards/) as unknown,
      })
      await fill(events, 1_000)
      const cut = finishReshard(engines, {
        ...options,
        say: () => {
          throw new Error('cut')
        },
      })
      await expect(cut).rejects.toThrow(
        /^cut\nNo service can use ClickHouse now\. Run the command again, or with --cancel/,
      )
      expect(await shardStore(postgres).read()).toBe(1)
      expect(await refusal(newUrl())).toMatch(/is being filled by "npm run reshard"/)
      expect(await refusal(engines.clickHouseUrl)).toMatch(/Run "npm run migrate"/)
      await expect(migrate(engines)).rejects.toMatchObject({
        internal: expect.stringMatching(/were moved by "npm run reshard"/) as unknown,
      })
      await finishReshard(engines, options)
      await expectShards(2, target, { count: 7_000, users: 100 })
    },
    longMs,
  )

  test(
    'ends after a cut before the migration of the new servers, which the migration itself would do as well',
    async () => {
      await fill()
      await copyEvents(engines, options)
      await retire()
      const noted = await shardStore(postgres).readState()
      await shardStore(postgres).double(noted ?? { number: 1, doublingSince: null })
      await finishReshard(engines, options)
      await expectShards(2, target)
      expect(await refusal(newUrl())).toBe('')
    },
    longMs,
  )

  test(
    'is given up, before and after the old database was renamed',
    async () => {
      await fill()
      const before = await databases()
      await copyEvents(engines, options)
      await cancelReshard(engines, options)
      expect(await databases()).toStrictEqual(before)
      await copyEvents(engines, options)
      await retire()
      await cancelReshard(engines, options)
      expect(await databases()).toStrictEqual(before)
      expect(await shardStore(postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
      expect(await refusal(engines.clickHouseUrl)).toBe('')
      expect(await query(engines.clickHouseUrl, 'SELECT count() AS events FROM events')).toStrictEqual([{ events }])
    },
    longMs,
  )

  test(
    'is given up while a server that joins is away, which is named, and its copy is dropped by a repeat',
    async () => {
      await fill()
      const before = await databases()
      await copyEvents(engines, options)
      await retire()
      await cluster.servers[1]?.kill()
      try {
        await cancelReshard(engines, options)
      } finally {
        await cluster.servers[1]?.start()
      }
      expect(lines.at(-1)).toMatch(
        /^These servers do not answer: http:\/\/127\.0\.0\.2:\d+\. .* drop the database test_/,
      )
      expect(await refusal(engines.clickHouseUrl)).toBe('')
      expect(await shardStore(postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
      expect(await databases()).toStrictEqual([...before, `${target} on 1`].sort())
      await cancelReshard(engines, options)
      expect(await databases()).toStrictEqual(before)
    },
    longMs,
  )

  test(
    'is ended without the room that is estimated, once the old database is renamed',
    async () => {
      await fill()
      await copyEvents(engines, options)
      await fill(events, 6_000)
      const full = { ...options, spaceFactor: 1e12 }
      await expect(finishReshard(engines, full)).rejects.toMatchObject({
        internal: expect.stringMatching(/Enlarge its disk/) as unknown,
      })
      await retire()
      await finishReshard(engines, full)
      await expectShards(2, target, { count: 12_000, users: 100 })
    },
    longMs,
  )
})

test(
  'a row that a command without a lock still stores on a server that joins is not kept',
  async () => {
    await fill()
    await copyEvents(engines, options)
    const late = openClickHouse(serverUrl(1, target))
    const inserting = late.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 'late', 'prod', 'view', now64(3), toString(number), now64(3) FROM numbers(600) WHERE sleepEachRow(0.01) = 0
       SETTINGS max_block_size = 10`,
    )
    await waitUntil(
      async () =>
        (await query(serverUrl(1, 'default'), "SELECT 1 FROM system.processes WHERE query LIKE 'INSERT%sleepEachRow%'"))
          .length > 0,
      'the insert runs',
    )
    await finishReshard(engines, options)
    await inserting
    await late.close()
    await expectShards(2, target)
  },
  longMs,
)

test(
  'what a statement stores or deletes that had begun before the old database was renamed is copied',
  async () => {
    await fill()
    await copyEvents(engines, options)
    const clickHouse = openClickHouse(engines.clickHouseUrl)
    const inserting = clickHouse.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 'late', 'prod', 'view', now64(3), toString(number), now64(3) FROM numbers(200) WHERE sleepEachRow(0.01) = 0
       SETTINGS max_block_size = 10`,
    )
    await waitUntil(
      async () =>
        (await query(engines.clickHouseUrl, "SELECT 1 FROM system.processes WHERE query LIKE 'INSERT%sleepEachRow%'"))
          .length > 0,
      'the insert runs',
    )
    await clickHouse.command("DELETE FROM events WHERE user_id = '7'", { settings: { lightweight_deletes_sync: '0' } })
    await finishReshard(engines, options)
    await inserting
    await clickHouse.close()
    const count = async (condition: string): Promise<number> => {
      const found = await Promise.all(
        [0, 1].map((place) =>
          query<{ count: number }>(serverUrl(place, target), `SELECT count() AS count FROM events WHERE ${condition}`),
        ),
      )
      return found.flat().reduce((sum, row) => sum + row.count, 0)
    }
    expect(await count("site_id = 'late'")).toBe(200)
    expect(await count("user_id = '7'")).toBe(0)
  },
  longMs,
)

test('the statements of a reshard have no time limit, whatever the profile of the user says', async () => {
  const servers = await openReshardServers(engines.clickHouseUrl, options)
  for (const { anywhere } of [...servers.old, ...servers.joining]) {
    const { rows } = await anywhere.query(
      "SELECT value, changed FROM system.settings WHERE name = 'max_execution_time'",
    )
    expect(rows).toStrictEqual([{ value: '0', changed: 1 }])
  }
  await servers.close()
})

test(
  'tombstones that a server has removed because of their age make no difference',
  async () => {
    await fill()
    await command(engines.clickHouseUrl, 'SYSTEM STOP TTL MERGES erasures')
    await command(engines.clickHouseUrl, 'SYSTEM STOP MERGES erasures')
    await storeOldTombstone()
    await copyEvents(engines, options)
    const count = 'SELECT count() AS count FROM erasures'
    for (const place of [0, 1]) {
      await command(serverUrl(place, target), 'OPTIMIZE TABLE erasures FINAL')
      expect(await query(serverUrl(place, target), count)).toStrictEqual([{ count: 1 }])
    }
    expect(await query(engines.clickHouseUrl, count)).toStrictEqual([{ count: 2 }])
    lines = []
    await copyEvents(engines, options)
    expect(lines).toStrictEqual([expect.stringMatching(/^The copy is complete; nothing differed\./)])
  },
  longMs,
)

test(
  'a command that has lost its lock to another one copies nothing over a store that is in use',
  async () => {
    await fill()
    await copyEvents(engines, options)
    const resharding = await openResharding(engines.clickHouseUrl, options)
    await resharding.check()
    await migrateClickHouse(newUrl())
    for (const place of [0, 1]) {
      await command(
        serverUrl(place, target),
        `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
         SELECT 'new', 'prod', 'view', toDateTime64('2026-01-01 00:00:00', 3, 'UTC'), 'e', now64(3)`,
      )
    }
    await expect(resharding.copy(options.say)).rejects.toMatchObject({
      internal: expect.stringMatching(/has opened it meanwhile/) as unknown,
    })
    await resharding.close()
    const kept = await query(serverUrl(1, target), "SELECT count() AS count FROM events WHERE site_id = 'new'")
    expect(kept).toStrictEqual([{ count: 1 }])
  },
  longMs,
)

describe('refuses, with what to do and nothing changed,', () => {
  async function expectRefusal(
    run: (engines: ReshardEngines, options: ReshardOptions) => Promise<void>,
    changes: Partial<ReshardOptions>,
    reason: RegExp,
  ): Promise<void> {
    const before = await databases()
    const noted = await shardStore(postgres).readState()
    await expect(run(engines, { ...options, ...changes })).rejects.toMatchObject({
      internal: expect.stringMatching(reason) as unknown,
    })
    expect(await databases()).toStrictEqual(before)
    expect(await shardStore(postgres).readState()).toStrictEqual(noted)
  }

  type RefusedCase = [string, Partial<ReshardOptions>, RegExp]

  test.each<RefusedCase>([
    ['an unknown cluster', { cluster: 'nope' }, /does not know the cluster nope\. It knows: .*two/],
    [
      'a cluster of another number',
      { cluster: 'test_shards' },
      /leads to 1 server, and .* has 4\. .* name a cluster of 2/,
    ],
    ['servers in another order', { cluster: 'swapped' }, /Server 1 of .* is not the one that holds shard 1/],
    ['a server that is named twice', { cluster: 'twice' }, /names a server twice/],
    ['a cluster whose name no URL may have', { cluster: 'zwölf' }, /--to zwölf: "cluster" must be a name of letters/],
    ...["a'b", '2b', 'default', 'system', 'INFORMATION_SCHEMA'].map((name): RefusedCase => [
      `the name ${name}`,
      { database: name },
      /is no name of a new database/,
    ]),
    ['disks that are too small', { spaceFactor: 1e12 }, /has \d+ free bytes and needs \d+.* Enlarge its disk/],
  ])('%s', async (_, changes, reason) => {
    await fill()
    await expectRefusal(copyEvents, changes, reason)
    await expectRefusal(planReshard, changes, reason)
  })

  test('the name of the old database', async () => {
    await expectRefusal(copyEvents, { database }, /another than test_/)
  })

  test('a new server with a store of its own', async () => {
    await migrateClickHouse(serverUrl(1))
    await expectRefusal(copyEvents, {}, /127\.0\.0\.2.* has a store in its database test_/)
  })

  test('a database of another store by the new name', async () => {
    await migrateClickHouse(serverUrl(1, target))
    await expectRefusal(copyEvents, {}, /has a database .*_new that this reshard did not make/)
  })

  test('a database of somebody else by the new name, with and without a store', async () => {
    await command(serverUrl(1, 'default'), `CREATE DATABASE ${target}`)
    await command(serverUrl(1, target), 'CREATE TABLE own (n Int8) ENGINE = Memory')
    await expectRefusal(copyEvents, {}, /has a database .*_new that this reshard did not make/)
    await expectRefusal(cancelReshard, {}, /has a database .*_new that this reshard did not make/)
    await cluster.drop(target)
    await migrateClickHouse(serverUrl(1, target))
    await expectRefusal(cancelReshard, {}, /holds shard 1 of 1 of its store|that this reshard did not make/)
  })

  test('to give up what was not started', async () => {
    await expectRefusal(cancelReshard, {}, /There is nothing to give up/)
  })

  test('a second step into another database than the first one', async () => {
    await fill()
    await copyEvents(engines, options)
    await expectRefusal(
      finishReshard,
      { database: `${target}_4` },
      /holds no copy of the events\. Run the command without/,
    )
  })

  test('missing migrations', async () => {
    await command(engines.clickHouseUrl, "DELETE FROM schema_migrations WHERE name = '010-shards'")
    await expectRefusal(copyEvents, {}, /older than this build \(missing: 010-shards\)\. Run "npm run migrate"/)
  })

  test('partitions of the log that are no multiple of the new number', async () => {
    await openLog(3)
    await expectRefusal(copyEvents, {}, /The log has 3 partitions and ClickHouse 2 shards.* Add partitions/)
  })

  test('a store of another number of shards than Postgres knows', async () => {
    await sql`UPDATE shards SET number = 4`.execute(postgres.db)
    await expectRefusal(copyEvents, {}, /leads to one server, and the events are stored on a cluster of 4 shards/)
  })

  test('a second step without the first one', async () => {
    await expectRefusal(finishReshard, {}, /There is nothing to finish\. Run the command without --finish first/)
  })

  test('a second step while events may be unread that gateways placed for the old number of shards', async () => {
    await fill()
    await copyEvents(engines, options)
    const early = { placedAfterMs: 3_600_000 }
    const reason = /the writers have stored those until .* Let the writers run/
    await expectRefusal(finishReshard, early, reason)
    await finishReshard(engines, options)
    const four = { cluster: 'test_shards', database: `${target}_4` }
    engines = { ...engines, clickHouseUrl: newUrl() }
    await copyEvents(engines, { ...options, ...four })
    await expectRefusal(finishReshard, { ...early, ...four }, reason)
  })
})
