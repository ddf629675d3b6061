import { existsSync } from 'node:fs'
import { cp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { writePiece } from '@sluice/blobs/pieces'
import { block } from '@sluice/event-log/conformance/collect'
import { ensureTopics, missingTopics } from '@sluice/event-log/kafka/ensure-topics'
import { readGroupState } from '@sluice/event-log/kafka/group-offsets'
import { parseKafkaUrl } from '@sluice/event-log/kafka/url'
import { withKafkaAdmin } from '@sluice/event-log/kafka/with-admin'
import { backfillUrl, deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { hashValue } from '@sluice/event-store/erasures/erased-rows'
import { isEmptyPostgres } from '@sluice/postgres/after-restore'
import { backupStore } from '@sluice/postgres/backups'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { importStore } from '@sluice/postgres/imports'
import { withMigrationLock } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { folderOf } from '@sluice/runtime/folder-of'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type DrillRig, startDrillRig } from '../../../tests/drill/rig.ts'
import { describeWithInstallation } from '../../../tests/support/describe-with-installation.ts'
import { runOneAtATime } from '../../../tests/support/engines/test-engines.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { addImport } from '../../../tests/support/import-jobs.ts'
import { testSecretsKey } from '../../../tests/support/secrets-key.ts'
import { undoMigrationsSince026 } from '../../../tests/support/test-postgres.ts'
import { fingerprintOf, type Manifest, readManifest, writeManifest } from '../backup/manifest.ts'
import { finishRestore } from './restore.ts'

runOneAtATime()

const otherKey = Buffer.alloc(32, 'other').toString('base64')
/** The key of the backup was replaced. */
const replacedKey = { SLUICE_SECRETS_KEY: otherKey, SLUICE_SECRETS_KEY_PREVIOUS: testSecretsKey }
const containing = (text: string): unknown => expect.stringContaining(text)
describeWithInstallation('restore', () => {
  let rig: DrillRig
  let backup: string
  let finishedAt: number | undefined
  let lostExport: string
  /** An import whose file is in the backup. */
  let keptImport: string
  /** Imports, of users and of events, whose files are not. */
  let lostImports: readonly string[]

  beforeAll(async () => {
    rig = await startDrillRig()
    backup = join(rig.backups, 'whole')
    keptImport = await addUnfinishedImport('users')
    const segments = await withPostgres((postgres) => importStore(postgres).segments(keptImport))
    const blobs = await openBlobStore(rig.engines().blobsUrl)
    await blobs.write('exports/a', [Buffer.from('content')])
    for (const { object } of segments) await blobs.write(object, [Buffer.from('records')])
    await blobs.close()
    await insert(['ann', 'bob', 'cid', 'dan'])
    await eraseBeforeBackup('dan')
    await breakProjection()
    const { code, output } = await rig.command('admin/backup/main', [`file:${backup}`])
    expect({ code, output }).toMatchObject({ code: 0, output: containing('is complete') })
    await eraseAfterBackup('bob')
    lostExport = await exportAfterBackup()
    lostImports = [await addUnfinishedImport('users'), await addUnfinishedImport('events')]
    const renewed = await rig.command('admin/backup/main', [`file:${backup}`, '--postgres-only'])
    expect(renewed).toMatchObject({ code: 0 })
    finishedAt = await withPostgres((postgres) => backupStore(postgres).lastFinishedAt())
  })

  afterAll(async () => {
    await rig.stop()
  })

  async function insert(users: readonly string[]): Promise<void> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    for (const user of users) {
      await clickHouse.command(
        `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, user_id, received_at)
         VALUES ('shop', 'prod', 'view', now64(3), {user:String}, {user:String}, now64(3))`,
        { params: { user } },
      )
    }
    await clickHouse.close()
  }

  /** Deletes events by as many statements as an installation makes in some hours. */
  async function eraseBeforeBackup(user: string): Promise<void> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    for (let statement = 0; statement < 10; statement++)
      await clickHouse.command('DELETE FROM events WHERE user_id = {user:String}', { params: { user } })
    await clickHouse.close()
  }

  /** Leaves a part of `events` as a power failure may do: the files of its projection are empty. */
  async function breakProjection(): Promise<void> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    const { rows } = await clickHouse.query<{ path: string }>(
      `SELECT path FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active AND rows > 0`,
    )
    const folder = join(rows[0]?.path ?? '', 'counts.proj')
    await clickHouse.command('DETACH TABLE events SYNC')
    for (const file of await readdir(folder)) await truncate(join(folder, file))
    await clickHouse.command('ATTACH TABLE events')
    expect(await brokenProjections()).toBe(1)
    await clickHouse.close()
  }

  async function brokenProjections(): Promise<number | undefined> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    const { rows } = await clickHouse.query<{ count: number }>(
      'SELECT count() AS count FROM system.projection_parts WHERE database = currentDatabase() AND active AND is_broken',
    )
    await clickHouse.close()
    return rows[0]?.count
  }

  /** Completes an export whose file is written after the files were copied; returns its id. */
  async function exportAfterBackup(): Promise<string> {
    return withPostgres(async (postgres) => {
      const exports = exportStore(postgres)
      const now = Date.now()
      const { exportId } = await addExport(exports, { site: 'shop' }, now)
      const [lease] = await exports.leases.take(now, 1)
      if (lease === undefined) throw new Error('no export is due')
      await exports.beginFile(lease, { object: `export-files/${exportId}.1`, uploadId: 'upload' })
      await exports.complete(lease, { rows: 1, bytes: 1, etag: 'etag', expiresAt: now + 86_400_000 }, now)
      return exportId
    })
  }

  const addUnfinishedImport = async (type: 'users' | 'events'): Promise<string> =>
    withPostgres(async (postgres) => (await addImport(importStore(postgres), { type }, Date.now())).importId)

  /** Notes an erasure in Postgres as a worker leaves a completed one. */
  async function eraseAfterBackup(user: string): Promise<void> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    const hashes = await hashValue(
      { kind: 'user_id', siteId: 'shop', value: user },
      { isSharded: false, query: ({ sql, params }) => clickHouse.query(sql, params) },
    )
    await clickHouse.close()
    await withPostgres(async (postgres) => {
      const erasures = erasureStore(postgres)
      const now = Date.now()
      await erasures.create({
        erasureId: 'era_1',
        siteId: 'shop',
        kind: 'user_id',
        hashes,
        before: null,
        requestedAt: now,
        keyId: 'key_1',
      })
      const [taken] = await erasures.leases.take(now, 1)
      if (taken === undefined) throw new Error('no erasure is due')
      await erasures.advance(taken, 'verify', 1)
      await erasures.complete(taken, now)
    })
  }

  async function withPostgres<T>(work: (postgres: ReturnType<typeof openPostgres>) => Promise<T>): Promise<T> {
    const postgres = openPostgres(rig.engines().postgresUrl)
    try {
      return await work(postgres)
    } finally {
      await postgres.close()
    }
  }

  async function users(): Promise<string[]> {
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
    const { rows } = await clickHouse.query<{ user: string }>('SELECT user_id AS user FROM events ORDER BY user')
    await clickHouse.close()
    return rows.map(({ user }) => user)
  }

  async function restoreCopy(change: (folder: string) => Promise<void>) {
    const copy = join(rig.backups, 'changed')
    await cp(backup, copy, { recursive: true })
    await change(copy)
    const result = await rig.command('admin/restore/main', [`file:${copy}`])
    await rm(copy, { recursive: true })
    return result
  }

  async function expectUntouched(): Promise<void> {
    expect(await withPostgres(isEmptyPostgres)).toBe(true)
    const blobs = await openBlobStore(rig.engines().blobsUrl)
    const names: string[] = []
    for await (const { name } of blobs.list('')) names.push(name)
    await blobs.close()
    expect(names).toStrictEqual([])
    const clickHouse = openClickHouse(rig.engines().clickHouseUrl.replace(/\w+$/, 'default'))
    const { rows } = await clickHouse.query(`SELECT name FROM system.databases WHERE name LIKE 'sluice%'`)
    await clickHouse.close()
    expect(rows).toStrictEqual([])
  }

  async function changeManifest(folder: string, change: (manifest: Manifest) => Manifest): Promise<void> {
    const store = await openBlobStore(`file:${folder}`)
    await writeManifest(store, change(await readManifest(store, folder)))
    await store.close()
  }

  /** The newest dump in a backup. */
  const dumpIn = async (folder: string): Promise<string> =>
    join(folder, (await readdir(folder)).sort().findLast((name) => name.endsWith('.dump')) ?? '')

  test('the backup is noted, and no address is used twice', async () => {
    expect(finishedAt).toBeGreaterThan(0)
    const again = await rig.command('admin/backup/main', [`file:${backup}`])
    expect(again).toMatchObject({ code: 1, output: containing('is not empty') })
  })

  test('an address without a backup is a mistake, and no folder is made for it', async () => {
    const nowhere = join(rig.backups, 'nowhere')
    const missing = containing(`there is no folder ${nowhere}`)
    const [restored, renewed, based] = [
      await rig.command('admin/restore/main', [`file:${nowhere}`]),
      await rig.command('admin/backup/main', [`file:${nowhere}`, '--postgres-only']),
      await rig.command('admin/backup/main', [`file:${rig.backups}/next`, '--base', `file:${nowhere}`]),
    ]
    expect(restored).toMatchObject({ code: 1, output: missing })
    expect(renewed).toMatchObject({ code: 1, output: missing })
    expect(based).toMatchObject({ code: 1, output: missing })
    const withoutFiles = await rig.command('admin/backup/main', [`file:${rig.backups}/next`], {
      SLUICE_BLOBS_URL: `file:${nowhere}`,
    })
    expect(withoutFiles).toMatchObject({
      code: 1,
      output: containing(`SLUICE_BLOBS_URL: there is no folder ${nowhere}`),
    })
    const within = await rig.command('admin/backup/main', [`${rig.engines().blobsUrl}/backup`])
    expect(within).toMatchObject({ code: 1, output: containing('lie within each other') })
    expect(existsSync(nowhere)).toBe(false)
    expect(existsSync(join(folderOf(rig.engines().blobsUrl), 'backup'))).toBe(false)
  })

  test('the dump of Postgres is not renewed under another key than that of the backup', async () => {
    const copy = join(rig.backups, 'other-key')
    await cp(backup, copy, { recursive: true })
    await changeManifest(copy, (manifest) => ({ ...manifest, secretsKeyFingerprint: '0000000000000000' }))
    const { code, output } = await rig.command('admin/backup/main', [`file:${copy}`, '--postgres-only'])
    expect({ code, output }).toMatchObject({ code: 1, output: containing('SLUICE_SECRETS_KEY is not the key') })
    await rm(copy, { recursive: true })
  })

  test('once the key is replaced, the dump of Postgres is renewed with both, and the backup is of the new one', async () => {
    const copy = join(rig.backups, 'replaced-key')
    await cp(backup, copy, { recursive: true })
    const renewed = await rig.command('admin/backup/main', [`file:${copy}`, '--postgres-only'], replacedKey)
    expect(renewed).toMatchObject({ code: 0 })
    const store = await openBlobStore(`file:${copy}`)
    expect(await readManifest(store, copy)).toMatchObject({ secretsKeyFingerprint: fingerprintOf(otherKey) })
    await store.close()
    await rm(copy, { recursive: true })
  })

  test('a backup of another number of shards is no base, and its dump of Postgres is not renewed', async () => {
    const copy = join(rig.backups, 'other-shards')
    await cp(backup, copy, { recursive: true })
    await changeManifest(copy, ({ clickHouse, ...manifest }) => {
      const piece = { place: clickHouse.place, bytes: clickHouse.bytes }
      return { ...manifest, clickHouse: { ...clickHouse, pieces: [piece, piece] } }
    })
    const dump = await dumpIn(copy)
    const { code, output } = await rig.command('admin/backup/main', [`file:${copy}`, '--postgres-only'])
    const beforeReshard =
      "is from before a reshard: the number of ClickHouse's shards was 2, and is 1. Make a whole backup"
    expect({ code, output }).toMatchObject({ code: 1, output: containing(beforeReshard) })
    expect(await dumpIn(copy)).toBe(dump)
    const next = [`file:${join(rig.backups, 'after-reshard')}`, '--base', `file:${copy}`]
    const incremental = await rig.command('admin/backup/main', next)
    expect(incremental).toMatchObject({ code: 1, output: containing(beforeReshard) })
    await rm(copy, { recursive: true })
  })

  test('data is never restored over', async () => {
    const { code, output } = await rig.command('admin/restore/main', [`file:${backup}`])
    expect({ code, output }).toMatchObject({ code: 1, output: containing('holds tables') })
    expect(await users()).toStrictEqual(['ann', 'bob', 'cid'])
  })

  /** A copy of the backup whose dump has the schema that Postgres had before migration 026. */
  async function olderSchema(): Promise<string> {
    await withPostgres(undoMigrationsSince026)
    const copy = join(rig.backups, 'older-schema')
    await cp(backup, copy, { recursive: true })
    await changeManifest(copy, ({ schemas, ...manifest }) => {
      const postgres = schemas.postgres.filter(([name]) => name < '026')
      return { ...manifest, schemas: { ...schemas, postgres } }
    })
    const renewed = await rig.command('admin/backup/main', [`file:${copy}`, '--postgres-only'])
    expect(renewed).toMatchObject({ code: 0 })
    return copy
  }

  /** While another restore holds the lock, what that one has staged stays. */
  async function expectStagedKept(): Promise<void> {
    const server = openClickHouse(rig.engines().clickHouseUrl.replace(/\w+$/, 'default'))
    await server.command('CREATE DATABASE sluice_restoring')
    await withPostgres((postgres) =>
      withMigrationLock(postgres, async () => {
        const { code, output } = await rig.command('admin/restore/main', [`file:${backup}`])
        expect({ code, output }).toMatchObject({ code: 1, output: containing('migrating, resharding or restoring') })
      }),
    )
    const { rows } = await server.query(`SELECT name FROM system.databases WHERE name LIKE 'sluice%'`)
    expect(rows).toStrictEqual([{ name: 'sluice_restoring' }])
    // As a restore leaves it that was killed while it loaded a table again: the next restore removes it.
    await server.command('CREATE TABLE sluice_restoring.events (n UInt8) ENGINE = MergeTree ORDER BY n')
    await server.command('DETACH TABLE sluice_restoring.events SYNC')
    await server.close()
  }

  test('a backup that is not whole changes nothing; a whole one is restored, and what was erased since stays erased', async () => {
    const older = await olderSchema()
    const renewedAt = Date.now()
    await rig.destroyEngines()
    const expectRefusal = async (change: (folder: string) => Promise<void>, sentence: string): Promise<void> => {
      const { code, output } = await restoreCopy(change)
      expect({ code, output }).toMatchObject({ code: 1, output: containing(sentence) })
      await expectUntouched()
    }
    await expectRefusal((folder) => rm(join(folder, 'manifest.json')), 'was not finished')
    await expectRefusal((folder) => writeFile(join(folder, 'manifest.json'), '{}'), 'is damaged')
    await expectRefusal((folder) => writeFile(join(folder, 'manifest.json'), 'null'), 'is damaged')
    await expectRefusal(async (folder) => {
      const file = join(folder, 'manifest.json')
      await writeFile(file, (await readFile(file, 'utf8')).replace(`"build": ${thisBuild}`, '"build": 0'))
    }, 'is damaged')
    await expectRefusal(async (folder) => rm(await dumpIn(folder)), 'is missing')
    await expectRefusal(async (folder) => writeFile(await dumpIn(folder), 'PGDMP'), 'its checksum differs')
    await expectRefusal((folder) => rm(join(folder, 'blobs/exports/a')), 'blobs/exports/a is missing')

    await expectRefusal(
      (folder) => changeManifest(folder, (manifest) => ({ ...manifest, secretsKeyFingerprint: '0000000000000000' })),
      'SLUICE_SECRETS_KEY is not the key of the backup (fingerprint 0000000000000000)',
    )
    const unreadable = await restoreCopy(async (folder) => {
      const store = await openBlobStore(`file:${folder}`)
      const piece = await writePiece(store, 'postgres-0.dump', [Buffer.from('PGDMP of another release')])
      await store.close()
      await changeManifest(folder, (manifest) => ({ ...manifest, postgres: { ...piece, at: manifest.at } }))
    })
    expect(unreadable).toMatchObject({ code: 1, output: containing('pg_restore ended with 1') })
    expect(unreadable.output).not.toContain('ClickHouse…')
    const alone = await rig.command('admin/restore/main', [`file:${backup}`, '--clickhouse-only'])
    expect(alone).toMatchObject({ code: 1, output: containing('SLUICE_POSTGRES_URL: the database is empty') })

    await expectRefusal(
      (folder) =>
        changeManifest(folder, (manifest) => {
          const postgres = [...manifest.schemas.postgres, ['999-of-tomorrow', thisBuild + 1] as const]
          return { ...manifest, schemas: { ...manifest.schemas, postgres } }
        }),
      `The Postgres schema is newer than this build, ${thisBuild} (unknown: 999-of-tomorrow needs build ${thisBuild + 1})`,
    )
    await expectStagedKept()
    const [part = ''] = await readdir(rig.disk)
    const away = join(rig.backups, 'away')
    await rename(join(rig.disk, part), away)
    await expectRefusal(() => Promise.resolve(), 'BACKUP_NOT_FOUND')
    await rename(away, join(rig.disk, part))

    const { code, output } = await rig.command('admin/restore/main', [`file:${older}`], replacedKey)
    expect({ code, output }).toMatchObject({
      code: 0,
      output: containing('Erasures repeated: 1'),
    })
    expect(output).toContain(`The file of the export ${lostExport} was not in the backup: export it again.`)
    expect(output).toContain(`The import ${keptImport} starts again.`)
    for (const importId of lostImports) {
      expect(output).toContain(`ClickHouse may lack records of the import ${importId}: upload its file again.`)
      expect(output).not.toContain(`The import ${importId} starts again.`)
      const record = await withPostgres((postgres) => importStore(postgres).find(importId, null))
      expect(record).toMatchObject({ status: 'failed', error: containing('Import it again') })
    }
    expect(await users()).toStrictEqual(['ann', 'cid'])
    expect(await brokenProjections()).toBe(0)
    // A worker repeats the erasure and finds nothing. The record still says how many events were erased.
    const counted = await withPostgres(async (postgres) => {
      const erasures = erasureStore(postgres)
      const [taken] = await erasures.leases.take(Date.now(), 1)
      if (taken === undefined) throw new Error('no erasure is due')
      await erasures.advance(taken, 'verify', 0)
      return (await erasures.find('shop', 'era_1'))?.count
    })
    expect(counted).toBe(1)
    // Its age is that of the backup, not of the restore.
    const noted = await withPostgres((postgres) => backupStore(postgres).lastFinishedAt())
    expect(noted).toBeLessThanOrEqual(renewedAt)
    const blobs = await openBlobStore(rig.engines().blobsUrl)
    expect(await blobs.size('exports/a')).toBe('content'.length)
    await blobs.close()
  })

  test('ClickHouse alone is restored beside the Postgres that is there', async () => {
    const server = openClickHouse(rig.engines().clickHouseUrl.replace(/\w+$/, 'default'))
    await server.command('DROP DATABASE sluice SYNC')
    await server.close()
    // As after a reshard that the backup does not know of.
    const setShards = (number: number) => withPostgres(({ db }) => db.updateTable('shards').set({ number }).execute())
    await setShards(2)
    const refused = await rig.command('admin/restore/main', [`file:${backup}`, '--clickhouse-only'])
    expect(refused).toMatchObject({ code: 1, output: containing('the events are stored on a cluster of 2 shards') })
    expect(refused.output).not.toContain('ClickHouse…')
    await setShards(1)
    const { code, output } = await rig.command('admin/restore/main', [`file:${backup}`, '--clickhouse-only'])
    expect({ code, output }).toMatchObject({ code: 0, output: containing('is restored') })
    expect(await users()).toStrictEqual(['ann', 'cid'])
  })

  test('topics that were made anew since are read from their beginning, and their dead letters are not taken for replayed', async () => {
    const { logUrl, clickHouseUrl } = rig.engines()
    const { topic } = parseKafkaUrl(logUrl)
    const dead = await openEventLog(deadLetterUrl(logUrl), { logger: silentLogger })
    const deadId = await dead.id()
    await dead.close()
    await withPostgres((postgres) => replayPositionStore(postgres).advance(deadId, 0, 40n))
    await withKafkaAdmin(logUrl, silentLogger, (admin) =>
      admin.deleteTopics({ topics: [topic, `${topic}.backfill`, `${topic}.dead`] }),
    )
    // A topic that is gone between two requests is an error.
    const missing = () => missingTopics(logUrl).catch(() => [])
    await waitUntil(async () => (await missing()).length === 3, 'the topics are gone')
    await ensureTopics(logUrl, { partitions: 2 })
    const backfill = await openEventLog(backfillUrl(logUrl), { logger: silentLogger })
    for (let n = 0; n < 3; n++) await backfill.publish([block(0, String(n))], { timeoutMs: 10_000 })
    await backfill.close()

    const server = openClickHouse(clickHouseUrl.replace(/\w+$/, 'default'))
    await server.command('DROP DATABASE sluice SYNC')
    await server.close()
    const copy = join(rig.backups, 'positions')
    await cp(backup, copy, { recursive: true })
    let storeId = ''
    await changeManifest(copy, ({ lanes: { live, backfill: old }, ...manifest }) => {
      storeId = manifest.clickHouse.storeId
      // The backup had read more of the events than the new topic has, and less of the old events.
      return { ...manifest, lanes: { live: { ...live, next: ['5', '0'] }, backfill: { ...old, next: ['2', '0'] } } }
    })
    const args = [`file:${copy}`, '--clickhouse-only']
    const refused = await rig.command('admin/restore/main', args)
    expect(refused).toMatchObject({ code: 1, output: containing('--accept-loss') })
    const { code, output } = await rig.command('admin/restore/main', [...args, '--accept-loss'])
    expect({ code, output }).toMatchObject({ code: 0, output: containing('is restored') })
    const { partitions } = await readGroupState(backfillUrl(logUrl), writerGroup(storeId))
    expect([...partitions.values()].map(({ committed }) => committed)).toStrictEqual([0n, 0n])
    expect(await withPostgres((postgres) => replayPositionStore(postgres).read(deadId))).toStrictEqual(new Map())
  })

  test('topics that were made anew and hold more than the backup had read are read from their beginning, too', async () => {
    const { logUrl, clickHouseUrl } = rig.engines()
    const server = openClickHouse(clickHouseUrl.replace(/\w+$/, 'default'))
    const copy = join(rig.backups, 'older')
    await cp(backup, copy, { recursive: true })
    const args = [`file:${copy}`, '--clickhouse-only']
    let storeId = ''
    // The topic of old events holds three records in partition 0, which were appended within the last minutes.
    const backedUpAt = (at: number) =>
      changeManifest(copy, ({ lanes: { live, backfill }, ...manifest }) => {
        storeId = manifest.clickHouse.storeId
        const lanes = { live: { ...live, next: ['0', '0'] }, backfill: { ...backfill, next: ['2', '0'] } }
        return { ...manifest, at, lanes }
      })
    const committed = async () => {
      const { partitions } = await readGroupState(backfillUrl(logUrl), writerGroup(storeId))
      return [0, 1].map((partition) => partitions.get(partition)?.committed)
    }

    await server.command('DROP DATABASE sluice SYNC')
    await backedUpAt(Date.now())
    expect(await rig.command('admin/restore/main', args)).toMatchObject({ code: 0, output: containing('is restored') })
    expect(await committed()).toStrictEqual([2n, 0n])

    await server.command('DROP DATABASE sluice SYNC')
    await server.close()
    await backedUpAt(Date.now() - 86_400_000)
    const refused = await rig.command('admin/restore/main', args)
    expect(refused).toMatchObject({
      code: 1,
      output: containing('begins after the backup: the topic was created again.'),
    })
    const accepted = await rig.command('admin/restore/main', [...args, '--accept-loss'])
    expect(accepted).toMatchObject({ code: 0, output: containing('is restored') })
    expect(await committed()).toStrictEqual([0n, 0n])
  })
})

test('a failure after the data were restored says that they are, and what is left to do', async () => {
  const postgres = openPostgres('postgres://a:b@127.0.0.1:1/x')
  const clickHouse: Manifest['clickHouse'] = {
    storeId: 'a',
    database: 'sluice',
    place: { kind: 'disk', disk: 'backups', name: 'bak_1' },
    bytes: 0,
    base: null,
  }
  const engines = { postgres, clickHouseUrl: 'http://127.0.0.1:1/sluice', logUrl: 'kafka://127.0.0.1:1/events' }
  await expect(finishRestore(engines, { backupId: 'bak_1', at: 0, clickHouse }, 'file:a')).rejects.toThrow(
    /ECONNREFUSED[^]*\nAll data are restored. Run "npm run migrate", then start the services.$/,
  )
  await postgres.close()
})
