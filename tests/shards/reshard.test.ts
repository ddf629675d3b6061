import { expect, test } from '@jest/globals'
import { cancelReshard, copyEvents, finishReshard, planReshard } from '@sluice/admin/reshard/reshard'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { openResharding } from '@sluice/event-store/reshard/resharding'
import { openReshardServers } from '@sluice/event-store/reshard/servers'
import { shardStore } from '@sluice/postgres/shards'
import { waitUntil } from '@sluice/runtime/wait-until'
import { events, longMs, useReshard } from './reshard-rig.ts'

const rig = useReshard()

test(
  'one server becomes two, and two become four',
  async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    await rig.fill(events, 1_000)
    await finishReshard(rig.engines, rig.options)
    await rig.expectShards(2, rig.target, { count: 7_000, users: 50 + 50 })
    expect(await shardStore(rig.postgres).readState()).toStrictEqual({ number: 2, doublingSince: null })
    expect(rig.lines.at(-1)).toContain(`by /${rig.target}?cluster=two,`)
    expect(await rig.refusal(rig.newUrl())).toBe('')
    const elsewhere = finishReshard(rig.engines, { ...rig.options, database: `${rig.target}_4` })
    await expect(elsewhere).rejects.toMatchObject({
      internal: expect.stringMatching(/but not into the database/) as unknown,
    })
    // Neither into another store of as many shards.
    const other = `${rig.target}_4`
    await migrateClickHouse(rig.cluster.url(other, 'sluice', 'two'))
    await expect(finishReshard(rig.engines, { ...rig.options, database: other })).rejects.toMatchObject({
      internal: expect.stringMatching(/but not into the database/) as unknown,
    })
    await rig.cluster.drop(other)
    // A repeat finds nothing to do, and nothing can be given up any more.
    await finishReshard(rig.engines, rig.options)
    await expect(cancelReshard(rig.engines, rig.options)).rejects.toMatchObject({ code: 'internal' })

    const four = { ...rig.options, cluster: 'test_shards', database: `${rig.target}_4` }
    rig.engines = { ...rig.engines, clickHouseUrl: rig.newUrl() }
    await copyEvents(rig.engines, four)
    await finishReshard(rig.engines, four)
    await rig.expectShards(4, four.database, { count: 7_000, users: 100 })
    expect(await shardStore(rig.postgres).read()).toBe(4)
    expect(await rig.refusal(rig.cluster.url(four.database))).toBe('')
  },
  longMs,
)

test(
  'a plan says what each server gets, and changes nothing',
  async () => {
    await rig.fill()
    const before = await rig.databases()
    await planReshard(rig.engines, rig.options)
    expect(rig.lines).toStrictEqual([
      expect.stringMatching(
        /^http:\/\/127\.0\.0\.1:\d+: about 3,000 events of http.*, [\d,]+ bytes to write, [\d,]+ bytes are free$/,
      ),
      expect.stringMatching(/^http:\/\/127\.0\.0\.2:\d+: about 3,000 events of http:\/\/127\.0\.0\.1/),
      'Nothing was changed.',
    ])
    expect(await rig.databases()).toStrictEqual(before)
    expect(await shardStore(rig.postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
  },
  longMs,
)

test(
  'a row that a command without a lock still stores on a server that joins is not kept',
  async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    const late = openClickHouse(rig.serverUrl(1, rig.target))
    const inserting = late.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 'late', 'prod', 'view', now64(3), toString(number), now64(3) FROM numbers(600) WHERE sleepEachRow(0.01) = 0
       SETTINGS max_block_size = 10`,
    )
    await waitUntil(
      async () =>
        (
          await rig.query(
            rig.serverUrl(1, 'default'),
            "SELECT 1 FROM system.processes WHERE query LIKE 'INSERT%sleepEachRow%'",
          )
        ).length > 0,
      'the insert runs',
    )
    await finishReshard(rig.engines, rig.options)
    await inserting
    await late.close()
    await rig.expectShards(2, rig.target)
  },
  longMs,
)

test(
  'what a statement stores or deletes that had begun before the old database was renamed is copied',
  async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    const clickHouse = openClickHouse(rig.engines.clickHouseUrl)
    const inserting = clickHouse.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 'late', 'prod', 'view', now64(3), toString(number), now64(3) FROM numbers(200) WHERE sleepEachRow(0.01) = 0
       SETTINGS max_block_size = 10`,
    )
    await waitUntil(
      async () =>
        (
          await rig.query(
            rig.engines.clickHouseUrl,
            "SELECT 1 FROM system.processes WHERE query LIKE 'INSERT%sleepEachRow%'",
          )
        ).length > 0,
      'the insert runs',
    )
    await clickHouse.command("DELETE FROM events WHERE user_id = '7'", { settings: { lightweight_deletes_sync: '0' } })
    await finishReshard(rig.engines, rig.options)
    await inserting
    await clickHouse.close()
    const count = async (condition: string): Promise<number> => {
      const found = await Promise.all(
        [0, 1].map((place) =>
          rig.query<{ count: number }>(
            rig.serverUrl(place, rig.target),
            `SELECT count() AS count FROM events WHERE ${condition}`,
          ),
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
  const servers = await openReshardServers(rig.engines.clickHouseUrl, rig.options)
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
    await rig.fill()
    await rig.command(rig.engines.clickHouseUrl, 'SYSTEM STOP TTL MERGES erasures')
    await rig.command(rig.engines.clickHouseUrl, 'SYSTEM STOP MERGES erasures')
    await rig.storeOldTombstone()
    await copyEvents(rig.engines, rig.options)
    const count = 'SELECT count() AS count FROM erasures'
    for (const place of [0, 1]) {
      await rig.command(rig.serverUrl(place, rig.target), 'OPTIMIZE TABLE erasures FINAL')
      expect(await rig.query(rig.serverUrl(place, rig.target), count)).toStrictEqual([{ count: 1 }])
    }
    expect(await rig.query(rig.engines.clickHouseUrl, count)).toStrictEqual([{ count: 2 }])
    rig.lines = []
    await copyEvents(rig.engines, rig.options)
    expect(rig.lines).toStrictEqual([expect.stringMatching(/^The copy is complete; nothing differed\./)])
  },
  longMs,
)

test(
  'a command that has lost its lock to another one copies nothing over a store that is in use',
  async () => {
    await rig.fill()
    await copyEvents(rig.engines, rig.options)
    const resharding = await openResharding(rig.engines.clickHouseUrl, rig.options)
    await resharding.check()
    await migrateClickHouse(rig.newUrl())
    for (const place of [0, 1]) {
      await rig.command(
        rig.serverUrl(place, rig.target),
        `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
         SELECT 'new', 'prod', 'view', toDateTime64('2026-01-01 00:00:00', 3, 'UTC'), 'e', now64(3)`,
      )
    }
    await expect(resharding.copy(rig.options.say)).rejects.toMatchObject({
      internal: expect.stringMatching(/has opened it meanwhile/) as unknown,
    })
    await resharding.close()
    const kept = await rig.query(
      rig.serverUrl(1, rig.target),
      "SELECT count() AS count FROM events WHERE site_id = 'new'",
    )
    expect(kept).toStrictEqual([{ count: 1 }])
  },
  longMs,
)
