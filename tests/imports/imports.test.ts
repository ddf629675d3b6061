import { text } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import type { ImportError } from '@sluice/contracts/imports'
import { segmentName } from '@sluice/imports/blob-names'
import { shardStore } from '@sluice/postgres/shards'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { internalError } from '@sluice/runtime/errors'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { removeUnneededImportFiles } from '@sluice/worker/imports/import-files'
import { exactClock } from '../support/clock.ts'
import { createImportRig, type ImportRig } from '../support/import-rig.ts'
import { badLines, csvOf, expectedRows, generateEvents, ndjsonOf, storedRows } from '../support/imported-events.ts'
import { uploadFile } from '../support/uploaded-import.ts'
import { blockOfRows, event } from '../support/writer.ts'

let rig: ImportRig
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  rig = await createImportRig()
})

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

afterAll(async () => {
  await rig.drop()
})

async function start(metrics: Metrics = createMetrics()): Promise<void> {
  stops.push(await rig.startWriter(), await rig.startWorker(metrics))
}

async function errorsOf(importId: string): Promise<ImportError[]> {
  const errors: ImportError[] = []
  for (const { errorsObject } of await rig.imports.segments(importId)) {
    if (errorsObject === null) continue
    const lines = await text((await rig.blobs.read(errorsObject)).pipe(createGunzip()))
    for (const line of lines.split('\n').slice(0, -1)) errors.push(JSON.parse(line) as ImportError)
  }
  return errors
}

async function figure(metrics: Metrics, name: string, result?: string): Promise<number | undefined> {
  const { values } = (await metrics.getSingleMetric(name)?.get()) ?? { values: [] }
  return values.find(({ labels }) => labels.result === result)?.value
}

describe('an import of events', () => {
  test('of CSV ends completed when its rows can be read, and names each bad record by its line', async () => {
    const metrics = createMetrics()
    await start(metrics)
    const events = generateEvents(4_000)
    const { importId, siteId } = await uploadFile(rig, csvOf(events), { segmentRecords: 1_500 })
    const { status, error, ...counts } = await rig.ended(importId)
    expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
    expect({ status, error }).toStrictEqual({ status: 'completed', error: null })
    expect(counts).toMatchObject({ totalRecords: 4_400, processedRecords: 4_400, failedRecords: 400 })
    const errors = await errorsOf(importId)
    expect(errors.map(({ line }) => line)).toStrictEqual(badLines(4_000))
    expect(errors[0]).toStrictEqual({
      line: 12,
      record: 11,
      field: 'timestamp_ms',
      message: expect.stringContaining('timestamp_ms') as unknown,
    })
    expect(await rig.blobNames()).toStrictEqual([0, 1, 2].map((n) => `imports/${importId}/errors/${n}`))
    expect(await figure(metrics, 'sluice_worker_import_rows_total', 'accepted')).toBe(4_000)
    expect(await figure(metrics, 'sluice_worker_import_rows_total', 'failed')).toBe(400)
  })

  test('ends completed although the store of files refuses to remove its segments', async () => {
    const events = generateEvents(20)
    const { importId, siteId } = await uploadFile(rig, csvOf(events))
    const refused = jest.spyOn(rig.blobs, 'remove').mockRejectedValue(internalError('MissingContentMD5'))
    try {
      await start()
      expect(await rig.ended(importId)).toMatchObject({ status: 'completed', error: null })
      expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
      expect(refused).toHaveBeenCalled()
    } finally {
      refused.mockRestore()
    }
    await removeUnneededImportFiles({ ...rig, clock: exactClock })
    expect(await rig.blobNames()).not.toContain(segmentName(importId, 0))
  })

  test('waits while the disk has less than half of the free space that uploads leave', async () => {
    const events = generateEvents(20)
    const { importId, siteId } = await uploadFile(rig, csvOf(events))
    const disk = jest.spyOn(rig.blobs, 'disk').mockResolvedValue({ freeBytes: 49, sizeBytes: 1_000 })
    try {
      await start()
      await waitUntil(() => disk.mock.calls.length >= 3, 'the import has looked for room')
      expect(await rig.imports.find(importId, null)).toMatchObject({ processedRecords: 0, finishedAt: null })
      disk.mockResolvedValue({ freeBytes: 50, sizeBytes: 1_000 })
      expect(await rig.ended(importId)).toMatchObject({ status: 'completed' })
    } finally {
      disk.mockRestore()
    }
    expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
  })

  test('and the same file twice at once, without ids, store every record once', async () => {
    await start()
    const events = generateEvents(500)
    const file = [...ndjsonOf(events)].map((line) => line.replace(/"event_id":"event-\d+",/, ''))
    const twice = await Promise.all(
      ['prod', 'prod'].map(() => uploadFile(rig, file, { siteId: 'twice', segmentRecords: 200 })),
    )
    for (const { importId } of twice) {
      expect(await rig.ended(importId)).toMatchObject({ status: 'completed', processedRecords: 500, failedRecords: 0 })
    }
    const hash = twice[0]?.sha256.slice(0, 32) ?? ''
    const named = events.map((each, n) => ({ ...each, id: `imp_${hash}_${n + 1}` }))
    expect(await storedRows(rig.clickHouse, 'twice')).toStrictEqual(expectedRows(named))
  })

  test('refuses events that are older than the site keeps them', async () => {
    await start()
    await siteStore(rig.postgres).create('short', { retention_days: 30 }, 'key_1')
    const young = Date.now() - 86_400_000
    const [first, second] = generateEvents(2)
    if (!first || !second) throw new Error('two events')
    const events = [
      { ...first, timestamp: young },
      { ...second, timestamp: young - 30 * 86_400_000 },
    ]
    const { importId } = await uploadFile(rig, csvOf(events), { siteId: 'short' })
    expect(await rig.ended(importId)).toMatchObject({ status: 'completed', processedRecords: 2, failedRecords: 1 })
    const message = 'Invalid field: timestamp_ms must not be older than the retention_days of its site, 30'
    expect(await errorsOf(importId)).toStrictEqual([{ line: 3, record: 2, field: 'timestamp_ms', message }])
    expect(await storedRows(rig.clickHouse, 'short')).toStrictEqual(expectedRows(events.slice(0, 1)))
  })

  test('waits for partitions that fit the number of shards, while that is being doubled too', async () => {
    // Three partitions are a multiple of one shard, but not of two.
    await shardStore(rig.postgres).record(1)
    await shardStore(rig.postgres).startDoubling()
    await start()
    const { importId } = await uploadFile(rig, csvOf(generateEvents(5)), { siteId: 'doubling' })
    await waitUntil(async () => {
      const { rows } = await sql<{ tries: number }>`SELECT tries FROM imports WHERE import_id = ${importId}`.execute(
        rig.postgres.db,
      )
      return (rows[0]?.tries ?? 0) > 0
    }, 'the worker has tried')
    expect(await rig.imports.find(importId, null)).toMatchObject({ processedRecords: 0, finishedAt: null })
    await sql`UPDATE shards SET doubling_since = NULL`.execute(rig.postgres.db)
    expect(await rig.ended(importId)).toMatchObject({ status: 'completed', processedRecords: 5 })
    await sql`DELETE FROM shards`.execute(rig.postgres.db)
  })

  test('of a JSON array on one line names each bad record by its number', async () => {
    await start()
    const list = JSON.stringify([{ event_type: 'view', timestamp_ms: 1_767_225_600_000 }, { event_type: 'view' }, 5])
    const { importId } = await uploadFile(rig, list, { siteId: 'one-line' })
    expect(await rig.ended(importId)).toMatchObject({ status: 'completed', processedRecords: 3, failedRecords: 2 })
    expect(await errorsOf(importId)).toStrictEqual([
      { line: 1, record: 2, field: 'timestamp_ms', message: 'Missing required field: timestamp_ms' },
      { line: 1, record: 3, message: 'Invalid format: record must be a JSON object' },
    ])
  })

  test('whose file is gone fails with a text that says so', async () => {
    const { importId } = await uploadFile(rig, csvOf(generateEvents(5)))
    await rig.blobs.remove([`imports/${importId}/segments/0`])
    await start()
    const { status, error } = await rig.ended(importId)
    expect({ status, error }).toStrictEqual({
      status: 'failed',
      error: expect.stringContaining('no longer there from line 2 on') as unknown,
    })
  })

  test('that is cancelled keeps what is stored, and leaves no file', async () => {
    await start()
    const events = generateEvents(6_000)
    const { importId, siteId } = await uploadFile(rig, csvOf(events), { segmentRecords: 100 })
    const processed = async () => (await rig.imports.find(importId, null))?.processedRecords ?? 0
    await waitUntil(async () => (await processed()) >= 300, 'three segments are done')
    await rig.imports.cancel(importId, null, Date.now())
    // As the query service does.
    await rig.blobs.remove((await rig.imports.segments(importId)).map(({ object }) => object))
    const { status, processedRecords, failedRecords } = await rig.ended(importId)
    expect(status).toBe('cancelled')
    expect(processedRecords).toBeLessThan(6_600)
    const stored = await waitUntilStored(siteId, processedRecords - failedRecords)
    expect(new Set(expectedRows(events))).toStrictEqual(new Set([...expectedRows(events), ...stored]))
    expect((await rig.blobNames()).filter((name) => name.includes(`${importId}/segments`))).toStrictEqual([])
  })

  test('waits while live events do, and goes on when they are stored', async () => {
    const first = await rig.startWriter()
    await waitUntil(async () => {
      const { rows } = await sql`SELECT FROM log_watermarks WHERE lane = 'backfill'`.execute(rig.postgres.db)
      return rows.length > 0
    }, 'a writer reads the backfill log')
    await first()
    await rig.publish(blockOfRows(0, [event('live', { site_id: 'live' })]))
    const ends = await rig.backfill.endOffsets()
    const metrics = createMetrics()
    stops.push(await rig.startWorker(metrics))
    const events = generateEvents(50)
    const { importId, siteId } = await uploadFile(rig, csvOf(events))
    const paused = async () => (await figure(metrics, 'sluice_worker_import_paused_seconds_total')) ?? 0
    await waitUntil(async () => (await paused()) > 1, 'the import is paused')
    expect(await rig.backfill.endOffsets()).toStrictEqual(ends)
    stops.push(await rig.startWriter())
    expect((await rig.ended(importId)).status).toBe('completed')
    expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
  })

  test('publishes nothing while the partitions are not spread evenly over the shards', async () => {
    const { inserter } = rig
    await watermarkStore(rig.postgres).advance(await rig.log.id(), [undefined], 'backfill')
    const ends = await rig.backfill.endOffsets()
    // The rig has three partitions.
    const two = jest.spyOn(inserter, 'shards').mockResolvedValue(2)
    stops.push(await rig.startWorker())
    const events = generateEvents(20)
    const { importId, siteId } = await uploadFile(rig, csvOf(events))
    await waitUntil(async () => {
      const { rows } = await sql<{ tries: number }>`
        SELECT tries FROM imports WHERE import_id = ${importId}`.execute(rig.postgres.db)
      return (rows[0]?.tries ?? 0) > 0
    }, 'a unit of the import failed').finally(() => two.mockRestore())
    expect(await rig.backfill.endOffsets()).toStrictEqual(ends)
    stops.push(await rig.startWriter())
    expect((await rig.ended(importId)).status).toBe('completed')
    expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
  })

  test('keeps its counts when the connection is lost between a segment and its import', async () => {
    const { db } = rig.postgres
    await sql`CREATE SEQUENCE cuts`.execute(db)
    await sql`
      CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('cuts') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NEW;
      END $$`.execute(db)
    await sql`
      CREATE TRIGGER cut BEFORE UPDATE OF processed_records ON imports FOR EACH ROW EXECUTE FUNCTION cut()`.execute(db)
    try {
      await start()
      const events = generateEvents(20)
      const { importId, siteId } = await uploadFile(rig, csvOf(events))
      const { status, processedRecords, failedRecords } = await rig.ended(importId)
      expect({ status, processedRecords, failedRecords }).toStrictEqual({
        status: 'completed',
        processedRecords: 22,
        failedRecords: 2,
      })
      expect(await storedRows(rig.clickHouse, siteId)).toStrictEqual(expectedRows(events))
    } finally {
      await sql`DROP FUNCTION cut CASCADE`.execute(db)
    }
  })
})

/** The stored rows of a site once there are so many, or more. */
async function waitUntilStored(site: string, count: number): Promise<string[]> {
  let rows: string[] = []
  await waitUntil(async () => {
    rows = await storedRows(rig.clickHouse, site)
    return rows.length >= count
  }, `${count} rows are stored`)
  return rows
}

describe('an import of users', () => {
  async function usersOf(site: string): Promise<unknown[]> {
    const { rows } = await rig.clickHouse.query(
      `SELECT environment, user_id, email, name, company, plan FROM users FINAL
       WHERE site_id = {site:String} ORDER BY environment, user_id`,
      { site },
    )
    return rows
  }

  test('replaces records, and clears fields that are empty', async () => {
    await start()
    const options = { siteId: 'users', type: 'users' } as const
    const before = ['user_id,email,plan\n', 'ada,ada@x.example,pro\n', 'bob,bob@x.example,free\n', ',nobody,\n']
    const first = await uploadFile(rig, before, options)
    const second = await uploadFile(rig, ['{"user_id":"ada","name":"Ada"}\n{"user_id":"ada","name":"Åda"}'], options)
    const dev = await uploadFile(rig, ['user_id,plan\nada,test'], { ...options, environment: 'dev' })
    expect(await rig.ended(first.importId)).toMatchObject({ status: 'completed', failedRecords: 1 })
    expect(await rig.ended(second.importId)).toMatchObject({ status: 'completed', failedRecords: 0 })
    expect(await rig.ended(dev.importId)).toMatchObject({ status: 'completed' })
    expect(await errorsOf(first.importId)).toMatchObject([{ line: 4, field: 'user_id' }])
    const empty = { email: '', name: '', company: '', plan: '' }
    expect(await usersOf('users')).toStrictEqual([
      { ...empty, environment: 'prod', user_id: 'ada', name: 'Åda' },
      { ...empty, environment: 'prod', user_id: 'bob', email: 'bob@x.example', plan: 'free' },
      { ...empty, environment: 'dev', user_id: 'ada', plan: 'test' },
    ])
  })
})
