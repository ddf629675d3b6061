import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import {
  cancelReshard,
  copyEvents,
  finishReshard,
  planReshard,
  type ReshardEngines,
  type ReshardOptions,
} from '@sluice/admin/reshard/reshard'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { shardStore } from '@sluice/postgres/shards'
import { useReshardServers } from './reshard-rig.ts'

const rig = useReshardServers()

async function expectRefusal(
  run: (engines: ReshardEngines, options: ReshardOptions) => Promise<void>,
  changes: Partial<ReshardOptions>,
  reason: RegExp,
): Promise<void> {
  const before = await rig.databases()
  const recorded = await shardStore(rig.postgres).readState()
  await expect(run(rig.engines, { ...rig.options, ...changes })).rejects.toMatchObject({
    internal: expect.stringMatching(reason) as unknown,
  })
  expect(await rig.databases()).toStrictEqual(before)
  expect(await shardStore(rig.postgres).readState()).toStrictEqual(recorded)
}

describe('a reshard refuses, with what to do and nothing changed,', () => {
  beforeAll(async () => {
    await rig.install()
    await rig.fill()
  })
  afterAll(() => rig.remove())

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
      /is not a valid name of a new database/,
    ]),
    ['disks that are too small', { spaceFactor: 1e12 }, /has \d+ free bytes and needs \d+.* Enlarge its disk/],
  ])('%s', async (_, changes, reason) => {
    await expectRefusal(copyEvents, changes, reason)
    await expectRefusal(planReshard, changes, reason)
  })

  test('the name of the old database', async () => {
    await expectRefusal(copyEvents, { database: rig.database }, /another than test_/)
  })

  test('to cancel what was not started', async () => {
    await expectRefusal(cancelReshard, {}, /There is nothing to cancel/)
  })

  test('a second step without the first one', async () => {
    await expectRefusal(finishReshard, {}, /There is nothing to finish\. Run the command without --finish first/)
  })
})

describe('an installation that a reshard does not fit is refused, with what to do and nothing changed:', () => {
  beforeEach(() => rig.install())
  afterEach(() => rig.remove())

  test('a new server with a store of its own', async () => {
    await migrateClickHouse(rig.serverUrl(1))
    await expectRefusal(copyEvents, {}, /127\.0\.0\.2.* has a store in its database test_/)
  })

  test('a database of another store by the new name', async () => {
    await migrateClickHouse(rig.serverUrl(1, rig.target))
    await expectRefusal(copyEvents, {}, /has a database .*_new that this reshard did not make/)
  })

  test('a database of somebody else by the new name, with and without a store', async () => {
    await rig.command(rig.serverUrl(1, 'default'), `CREATE DATABASE ${rig.target}`)
    await rig.command(rig.serverUrl(1, rig.target), 'CREATE TABLE own (n Int8) ENGINE = Memory')
    await expectRefusal(copyEvents, {}, /has a database .*_new that this reshard did not make/)
    await expectRefusal(cancelReshard, {}, /has a database .*_new that this reshard did not make/)
    await rig.cluster.drop(rig.target)
    await migrateClickHouse(rig.serverUrl(1, rig.target))
    await expectRefusal(cancelReshard, {}, /holds shard 1 of 1 of its store|that this reshard did not make/)
  })

  test('a second step into another database than the first one', async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    await expectRefusal(
      finishReshard,
      { database: `${rig.target}_4` },
      /holds no copy of the events\. Run the command without/,
    )
  })

  test('missing migrations', async () => {
    await rig.command(rig.engines.clickHouseUrl, "DELETE FROM schema_migrations WHERE name = '010-shards'")
    await expectRefusal(copyEvents, {}, /older than this build \(missing: 010-shards\)\. Run "npm run migrate"/)
  })

  test('partitions of the log that are no multiple of the new number', async () => {
    await rig.openLog(3)
    await expectRefusal(copyEvents, {}, /The log has 3 partitions and ClickHouse 2 shards.* Add partitions/)
  })

  test('a store of another number of shards than Postgres knows', async () => {
    await sql`UPDATE shards SET number = 4`.execute(rig.postgres.db)
    await expectRefusal(copyEvents, {}, /leads to one server, and the events are stored on a cluster of 4 shards/)
  })

  test('a second step while events may be unread that gateways placed for the old number of shards', async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    const early = { placedAfterMs: 3_600_000 }
    const reason = /the writers have stored those until .* Let the writers run/
    await expectRefusal(finishReshard, early, reason)
    await finishReshard(rig.engines, rig.options)
    const four = { cluster: 'test_shards', database: `${rig.target}_4` }
    rig.engines = { ...rig.engines, clickHouseUrl: rig.newUrl() }
    await copyEvents(rig.engines, { ...rig.options, ...four })
    await expectRefusal(finishReshard, { ...early, ...four }, reason)
  })
})
