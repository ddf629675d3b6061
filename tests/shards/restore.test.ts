import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { readManifest } from '@sluice/admin/backup/manifest'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { type DrillRig, startDrillRig } from '../drill/rig.ts'
import { describeWithInstallation } from '../support/describe-with-installation.ts'
import { runOneAtATime } from '../support/engines/test-engines.ts'

runOneAtATime()

describeWithInstallation('backup and restore of shards', () => {
  let rig: DrillRig
  let backup: string

  beforeAll(async () => {
    rig = await startDrillRig({ shards: 2 })
    backup = join(rig.backups, 'whole')
    // The services create the folder of the files at their start.
    await (await openBlobStore(rig.engines().blobsUrl)).close()
    await onEach((server, shard) =>
      withServer(server, async (clickHouse) => {
        await clickHouse.command(
          `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, received_at)
           SELECT 'shop', 'prod', 'view', now64(3), toString(number), concat('u', toString(number)), now64(3)
           FROM numbers(${shard * 10}, 3)`,
        )
      }),
    )
  })

  afterAll(async () => {
    await rig.stop()
  })

  async function withServer<T>(url: string, work: (clickHouse: ReturnType<typeof openClickHouse>) => Promise<T>) {
    const clickHouse = openClickHouse(url)
    try {
      return await work(clickHouse)
    } finally {
      await clickHouse.close()
    }
  }

  const onEach = <T>(work: (server: string, shard: number) => Promise<T>): Promise<T[]> =>
    Promise.all(rig.engines().clickHouseServers.map(work))

  const usersOnEach = () =>
    onEach((server) =>
      withServer(server, async (clickHouse) => {
        const { rows } = await clickHouse.query<{ user: string }>('SELECT user_id AS user FROM events ORDER BY user')
        return rows.map(({ user }) => user)
      }),
    )

  const databases = async () =>
    (
      await onEach((server) =>
        withServer(server.replace(/\w+$/, 'default'), async (clickHouse) => {
          const { rows } = await clickHouse.query(`SELECT name FROM system.databases WHERE name LIKE 'sluice%'`)
          return rows
        }),
      )
    ).flat()

  test('each shard comes back to its server; without a piece nothing is changed', async () => {
    const made = await rig.command('admin/backup/main', [`file:${backup}`])
    expect(made).toMatchObject({ code: 0 })
    const store = await openBlobStore(`file:${backup}`)
    const { format, backupId, clickHouse } = await readManifest(store, backup)
    await store.close()
    expect({ format, pieces: clickHouse.pieces }).toMatchObject({
      format: 2,
      pieces: [1, 2].map((shard) => ({ place: { name: `${backupId}/shard-${shard}` }, bytes: expect.any(Number) })),
    })
    const before = await usersOnEach()
    expect(before).toStrictEqual([
      ['u0', 'u1', 'u2'],
      ['u10', 'u11', 'u12'],
    ])

    await rig.destroyEngines()
    const piece = join(rig.disk, '2', backupId, 'shard-2')
    await rename(piece, `${piece}-away`)
    const refused = await rig.command('admin/restore/main', [`file:${backup}`])
    expect(refused).toMatchObject({ code: 1, output: expect.stringContaining('shard-2') })
    expect(await databases()).toStrictEqual([])

    await rename(`${piece}-away`, piece)
    const restored = await rig.command('admin/restore/main', [`file:${backup}`])
    expect(restored).toMatchObject({ code: 0, output: expect.stringContaining('is restored') })
    expect(await usersOnEach()).toStrictEqual(before)
    const migrated = await rig.command('admin/migrate/main')
    expect(migrated).toMatchObject({ code: 0, output: expect.stringContaining('ClickHouse: up to date') })
  })
})
