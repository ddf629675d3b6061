import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { ErasureKind } from '@sluice/contracts/erasures'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { ClickHouseAddress } from '@sluice/event-store/clickhouse/client'
import { externalTableClient } from '@sluice/event-store/clickhouse/external-table'
import { hashValue } from '@sluice/event-store/erasures/erased-rows'
import type { EventEraser } from '@sluice/event-store/erasures/event-eraser'
import { type EventReader, openEventReader } from '@sluice/event-store/event-reader'
import { insertNewEventsStatement } from '@sluice/event-store/insert/insert-new-events-statement'
import { userVersion } from '@sluice/event-store/insert/insert-users'
import { tablePartitionOf } from '@sluice/event-store/insert/table-partition'
import { LeaseLostError } from '@sluice/leases/lease-table'
import type { UnitResult } from '@sluice/leases/run-unit'
import { type ErasureRecord, type ErasureStore, erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { isRetryable, unavailable } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { row, sent } from '../../../tests/support/event-row.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { finishExport } from '../../../tests/support/finished-export.ts'
import { createImportRig, type ImportRig } from '../../../tests/support/import-rig.ts'
import { uploadFile } from '../../../tests/support/uploaded-import.ts'
import { blockOfRows } from '../../../tests/support/writer.ts'
import { replayDeadLetters } from '../../admin/replay-dead-letters/replay.ts'
import { erasuresPerStatementMax, erasureUnit } from './erasure-unit.ts'

let rig: ImportRig
let reader: EventReader
let store: ErasureStore
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  rig = await createImportRig()
  reader = openEventReader(urlOf(rig.clickHouse.address))
  store = erasureStore(rig.postgres)
})

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

afterAll(async () => {
  await reader.close()
  await rig.drop()
})

function urlOf({ origin, username, password, database }: ClickHouseAddress): string {
  const url = new URL(`/${database}`, origin)
  url.username = username
  url.password = password
  return url.href
}

const hour = 3_600_000
const dayMs = 24 * hour

async function insert(...rows: EventRow[]): Promise<number> {
  const { inserted } = await rig.inserter.insert(
    { payloads: rows.map((each) => Buffer.from(`${JSON.stringify(each)}\n`)), hasUndated: rows.some((r) => r.undated) },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 },
  )
  return inserted
}

type Selector =
  { user_id: string } | { session_id: string } | { event_id: string } | { before: number } | { site: true }

async function request(siteId: string, selector: Selector, requestedAt = Date.now()): Promise<ErasureRecord> {
  const [[kind, value] = ['site' as const, true]] = Object.entries(selector) as [ErasureKind, string | number | true][]
  const runner = reader.runnerFor({ key: 'test', signal: new AbortController().signal, priority: 'interactive' })
  const hashes =
    kind === 'before' || kind === 'site' ? null : await hashValue({ kind, siteId, value: String(value) }, runner)
  return store.create({
    erasureId: newId('era'),
    siteId,
    kind,
    hashes,
    before: kind === 'before' ? Number(value) : null,
    requestedAt,
    keyId: 'key_1',
  })
}

async function startWorker(): Promise<void> {
  stops.push(await rig.startWorker())
}

async function completed({ siteId, erasureId }: ErasureRecord): Promise<ErasureRecord> {
  let record: ErasureRecord | undefined
  await waitUntil(async () => {
    record = await store.find(siteId, erasureId)
    return record?.status === 'completed'
  }, 'the erasure is completed')
  if (record === undefined) throw new Error('the erasure is gone')
  return record
}

/** Runs the next unit of an erasure and returns its outcome, or `failed` for a failure that is retried. */
async function runUnit(
  erasureId: string,
  unit: ReturnType<typeof erasureUnit>,
): Promise<UnitResult['next'] | 'failed'> {
  // Whatever the unit before wants to wait for.
  const now = Date.now() + 3 * 60_000
  const [taken] = (await store.leases.take(now, 10)).filter(({ id }) => id === erasureId)
  if (taken === undefined) throw new Error('nobody can take it')
  try {
    const { next } = await unit(taken.job, { ...taken, signal: new AbortController().signal })
    await store.leases.release(taken, next === 'done' ? null : now, { isProgress: true })
    return next
  } catch (error) {
    if (!isRetryable(error)) throw error
    await store.leases.release(taken, now, { isProgress: false })
    return 'failed'
  }
}

async function stored(site: string): Promise<string[]> {
  const { rows } = await rig.clickHouse.query<{ id: string }>(
    'SELECT event_id AS id FROM events WHERE site_id = {site:String} ORDER BY id',
    { site },
  )
  return rows.map(({ id }) => id)
}

/** Events of a site by quarter and type, raw and through the projection, which have to agree. */
async function countsBothWays(site: string): Promise<{ raw: unknown[]; projected: unknown[] }> {
  const counts = `SELECT toStartOfFifteenMinutes(timestamp) AS quarter, event_type, count() AS events FROM events
    WHERE site_id = {site:String} GROUP BY quarter, event_type ORDER BY quarter, event_type`
  const users = `SELECT user_key, min(timestamp) FROM events WHERE site_id = {site:String} GROUP BY user_key ORDER BY user_key`
  const ask = async (sql: string, settings: object) =>
    (await rig.clickHouse.query(sql, { site }, { settings: settings as never })).rows
  const raw = { optimize_use_projections: 0 }
  const rows = await ask(counts, raw)
  const projected = await ask(counts, { optimize_use_projections: 1, force_optimize_projection_name: 'counts' })
  expect(await ask(users, { optimize_use_projections: 1, force_optimize_projection_name: 'user_weeks' })).toStrictEqual(
    await ask(users, raw),
  )
  return { raw: rows, projected }
}

describe('an erasure', () => {
  test.each<[string, (rows: EventRow[]) => Selector, (row: EventRow) => boolean]>([
    ['of a user', () => ({ user_id: 'ada' }), (each) => each.user_id === 'ada'],
    ['of a session', () => ({ session_id: 's2' }), (each) => each.session_id === 's2'],
    ['of an event', ([first]) => ({ event_id: first?.event_id ?? '' }), (each) => each.event_id === 'first'],
    [
      'of what is earlier than a moment',
      () => ({ before: sent - 40 * dayMs }),
      (each) => each.timestamp < sent - 40 * dayMs,
    ],
    ['of a site', () => ({ site: true }), () => true],
  ])('%s deletes what it selects and nothing else, and counts it', async (_, selector, isErased) => {
    const site = newId('site')
    const rows = Array.from({ length: 200 }, (_each, n) =>
      row(site, {
        event_id: n === 0 ? 'first' : randomUUID(),
        timestamp: sent - n * dayMs,
        user_id: ['ada', 'bob', ''][n % 3] ?? '',
        session_id: `s${n % 5}`,
        event_type: n % 2 === 0 ? 'view' : 'click',
        environment: n % 7 === 0 ? 'dev' : 'prod',
      }),
    )
    const ofOthers = [
      row(`${site}-2`),
      row(`${site}-2`, { event_id: 'first', session_id: 's2', timestamp: sent - 60 * dayMs }),
    ]
    await insert(...rows, ...ofOthers)
    expect((await countsBothWays(site)).projected).toStrictEqual((await countsBothWays(site)).raw)
    await startWorker()
    const erasure = await completed(await request(site, selector(rows)))
    const kept = rows.filter((each) => !isErased(each))
    expect(erasure.count).toBe(rows.length - kept.length)
    expect(await stored(site)).toStrictEqual(kept.map((each) => each.event_id).sort())
    expect(await stored(`${site}-2`)).toHaveLength(2)
    const { raw, projected } = await countsBothWays(site)
    expect(projected).toStrictEqual(raw)
    const oracle = new Map<string, number>()
    for (const { timestamp, event_type } of kept) {
      const key = `${Math.floor(timestamp / 900_000)} ${event_type}`
      oracle.set(key, (oracle.get(key) ?? 0) + 1)
    }
    expect((projected as { events: number }[]).map(({ events }) => events).sort()).toStrictEqual(
      [...oracle.values()].sort(),
    )
  })
})

describe('nothing of it comes back', () => {
  test('from an insert that was under way when the tombstone was stored', async () => {
    const site = newId('site')
    const client = externalTableClient(rig.clickHouse.address)
    const { sql, ...statement } = insertNewEventsStatement(
      { id: await rig.inserter.storeId(), position: undefined },
      { hasUndated: false, comparesTombstones: true },
    )
    const queryId = randomUUID()
    // It has read the tombstones, and takes seconds until it stores its rows.
    const slow = client.post({
      ...statement,
      sql: sql.replace('LIMIT 1 BY', 'AND sleepEachRow(1) = 0 LIMIT 1 BY'),
      payloads: [row(site), row(site), row(site, { user_id: 'bob', event_id: 'kept' })].map((each) =>
        Buffer.from(`${JSON.stringify(each)}\n`),
      ),
      settings: { ...statement.settings, query_id: queryId, function_sleep_max_microseconds_per_block: '60000000' },
      timeoutMs: 30_000,
    })
    await waitUntil(async () => {
      const { rows } = await rig.clickHouse.query('SELECT 1 FROM system.processes WHERE query_id = {queryId:String}', {
        queryId,
      })
      return rows.length > 0
    }, 'the insert is under way')
    const erasure = await request(site, { user_id: 'ada' })
    await startWorker()
    expect(await completed(erasure)).toMatchObject({ count: 2 })
    expect((await slow).writtenRows).toBe(3)
    expect(await stored(site)).toStrictEqual(['kept'])
    client.close()
  })

  test('from batches that were sent before and are stored after, dated and undated, whatever they hold besides', async () => {
    const site = newId('site')
    await startWorker()
    const erasures = await Promise.all([
      request(site, { user_id: 'ada' }),
      request(site, { session_id: 's9' }),
      request(site, { event_id: 'gone' }),
      request(site, { before: sent - 40 * dayMs }),
    ])
    for (const erasure of erasures) expect(await completed(erasure)).toMatchObject({ count: 0 })
    const late = [
      row(site, { event_id: 'a' }),
      row(site, { event_id: 'b', undated: 1 }),
      row(site, { event_id: 'c', user_id: '', session_id: 's9' }),
      row(site, { event_id: 'gone', user_id: 'bob' }),
      row(site, { event_id: 'd', user_id: 'bob', timestamp: sent - 41 * dayMs }),
      row(site, { event_id: 'kept', user_id: 'bob' }),
      row(site, { event_id: 'undated', user_id: 'bob', undated: 1 }),
      row(`${site}-2`, { event_id: 'a' }),
      // A value of another kind, and the ends of both ranges.
      row(site, { event_id: 'crossed', user_id: 's9', session_id: 'ada' }),
      row(site, { event_id: 'edge', user_id: 'bob', timestamp: sent - 40 * dayMs }),
      row(site, { event_id: 'same moment', received_at: erasures[0].requestedAt }),
    ]
    expect(await insert(...late)).toBe(5)
    // A repeated insert, as of a replayed dead letter or an import that was paused, stores nothing more.
    expect(await insert(...late)).toBe(0)
    expect(await stored(site)).toStrictEqual(['crossed', 'edge', 'kept', 'undated'])
  })

  test('from either log', async () => {
    const site = newId('site')
    await rig.publish(blockOfRows(0, [row(site), row(site, { event_id: 'kept', user_id: 'bob' })]))
    await rig.backfill.publish([blockOfRows(1, [row(site), row(site, { event_id: 'kept too', user_id: 'bob' })])], {
      timeoutMs: 10_000,
    })
    const erasure = await request(site, { user_id: 'ada' })
    await startWorker()
    await completed(erasure)
    stops.push(await rig.startWriter())
    await waitUntil(async () => (await stored(site)).length > 1, 'the writer has stored both')
    expect(await stored(site)).toStrictEqual(['kept', 'kept too'])
  })

  test('from an import that waits until the erasure is completed, and from a dead letter that is replayed later', async () => {
    const site = newId('site')
    const lines = (user: string) => `${user} 1,view,${sent},${user}\n${user} 2,view,${sent - 70 * dayMs},${user}\n`
    const { importId } = await uploadFile(
      rig,
      [`event_id,event_type,timestamp_ms,user_id\n${lines('ada')}${lines('bob')}`],
      { siteId: site },
    )
    const users = await uploadFile(rig, ['user_id,name\nada,Ada\nbob,Bob\n'], { siteId: site, type: 'users' })
    const letter = blockOfRows(2, [
      row(site, { event_id: 'dead' }),
      row(site, { event_id: 'dead bob', user_id: 'bob' }),
    ])
    await rig.deadLetters.publish(
      [
        {
          ...letter,
          headers: {
            ...letter.headers,
            letter: { reason: 'refused', code: 117, text: 'unknown field', at: sent, partition: 2, offset: '7' },
          },
        },
      ],
      { timeoutMs: 10_000 },
    )
    const erasure = await request(site, { user_id: 'ada' })
    await startWorker()
    // The import waits for a writer that reads the backfill log.
    expect(await completed(erasure)).toMatchObject({ count: 0 })
    stops.push(await rig.startWriter())
    expect(await rig.ended(importId)).toMatchObject({ status: 'completed', processedRecords: 4 })
    expect(await rig.ended(users.importId)).toMatchObject({ status: 'completed', processedRecords: 2 })
    expect(await replayDeadLetters(rig)).toMatchObject({ rows: 2 })
    await waitUntil(async () => (await stored(site)).length === 3, 'the dead letter is replayed')
    expect(await stored(site)).toStrictEqual(['bob 1', 'bob 2', 'dead bob'])
    const { rows } = await rig.clickHouse.query('SELECT user_id FROM users FINAL WHERE site_id = {site:String}', {
      site,
    })
    expect(rows).toStrictEqual([{ user_id: 'bob' }])
  })

  test('as an imported user, stored before or after', async () => {
    const site = newId('site')
    const user = (userId: string, number: number, at: number) =>
      Buffer.from(
        `${JSON.stringify({ site_id: site, environment: 'prod', user_id: userId, email: '', name: '', company: '', plan: '', imported_at: at, version: userVersion(1, number) })}\n`,
      )
    const users = async () => {
      const { rows } = await rig.clickHouse.query<{ id: string }>(
        'SELECT user_id AS id FROM users FINAL WHERE site_id = {site:String} ORDER BY id',
        { site },
      )
      return rows.map(({ id }) => id)
    }
    await rig.inserter.insertUsers([user('ada', 1, sent), user('bob', 2, sent)], { timeoutMs: 10_000 })
    await startWorker()
    await completed(await request(site, { user_id: 'ada' }))
    expect(await users()).toStrictEqual(['bob'])
    await rig.inserter.insertUsers([user('ada', 1, sent), user('cyd', 3, sent)], { timeoutMs: 10_000 })
    expect(await users()).toStrictEqual(['bob', 'cyd'])
    await completed(await request(site, { before: Date.now() }))
    expect(await users()).toStrictEqual(['bob', 'cyd'])
    await completed(await request(site, { site: true }))
    await rig.inserter.insertUsers([user('bob', 2, sent), user('ada', 4, Date.now() + 1)], { timeoutMs: 10_000 })
    expect(await users()).toStrictEqual(['ada'])
  })
})

test('events that are sent afterwards are new data, also copies of events that are still to be deleted', async () => {
  const site = newId('site')
  const dated = row(site, { event_id: 'dated' })
  const undated = row(site, { event_id: 'undated', undated: 1 })
  await insert(dated, undated)
  const erasure = await request(site, { user_id: 'ada' })
  await rig.eraser.storeTombstone(erasure)
  const received_at = erasure.requestedAt + 1
  expect(await insert({ ...dated, received_at }, { ...undated, received_at }, row(site, { received_at }))).toBe(3)
  await startWorker()
  await completed(erasure)
  // Before that, a merge may have replaced an old copy by the new one.
  expect(await stored(site)).toHaveLength(3)
  expect(await insert({ ...dated, received_at }, { ...undated, received_at })).toBe(0)
})

test('a site that is registered anew while it is erased keeps what is sent since, and its record', async () => {
  const siteId = newId('site')
  const sites = siteStore(rig.postgres)
  await sites.create(siteId, { retention_days: 30 }, 'key_1')
  const old = row(siteId, { event_id: 'old' })
  await insert(old, row(siteId))
  const requestedAt = Date.now()
  const selected = { siteId, kind: 'site', hashes: null, before: null } as const
  const deleted = await store.createForSite({ ...selected, erasureId: newId('era'), keyId: 'key_1' }, () => requestedAt)
  if (deleted === undefined) throw new Error('the site was not registered')
  await rig.eraser.storeTombstone(deleted.erasure)
  await sites.register([siteId])
  const received_at = requestedAt + 1
  const sentSince = [{ ...old, received_at }, row(siteId, { event_id: 'new', received_at })]
  expect(await insert(...sentSince, row(siteId, { event_id: 'late' }))).toBe(2)
  await startWorker()
  // A merge may have replaced the old event by the copy.
  expect((await completed(deleted.erasure)).count).toBeGreaterThanOrEqual(1)
  expect(await stored(siteId)).toStrictEqual(['new', 'old'])
  expect(await insert(...sentSince, row(siteId, { event_id: 'late' }))).toBe(0)
  expect(await sites.find(siteId)).toMatchObject({ settings: { retention_days: null } })
  const { raw, projected } = await countsBothWays(siteId)
  expect(projected).toStrictEqual(raw)
})

test('a mutation of somebody else that fails does not stop it', async () => {
  const site = newId('site')
  const old = sent - 900 * dayMs
  await insert(row(`${site}-old`, { timestamp: old }), row(site), row(site, { session_id: 's2', event_id: 'kept' }))
  await rig.clickHouse.command(
    `ALTER TABLE events UPDATE referrer = toString(throwIf(site_id = {site:String}))
     IN PARTITION ${tablePartitionOf(old)} WHERE 1`,
    { params: { site: `${site}-old` }, settings: { mutations_sync: '0' } },
  )
  const isFailing = async () => {
    const { rows } = await rig.clickHouse.query(
      "SELECT 1 FROM system.mutations WHERE database = currentDatabase() AND table = 'events' AND latest_fail_reason <> ''",
    )
    return rows.length > 0
  }
  try {
    await waitUntil(isFailing, 'the mutation fails')
    await startWorker()
    expect(await completed(await request(site, { session_id: 's1' }))).toMatchObject({ count: 1 })
    expect(await stored(site)).toStrictEqual(['kept'])
  } finally {
    await rig.clickHouse.command("KILL MUTATION WHERE database = currentDatabase() AND command LIKE '%throwIf%' SYNC")
  }
})

test('a worker that stops at any step leaves the rest to the next one', async () => {
  const site = newId('site')
  await insert(row(site), row(site, { user_id: 'bob', event_id: 'kept' }))
  const erasure = await request(site, { user_id: 'ada' })
  const unit = (eraser: EventEraser) =>
    erasureUnit({
      erasures: store,
      eraser,
      exports: exportStore(rig.postgres),
      blobs: rig.blobs,
      clock: { now: () => Date.now() },
      deleteEveryMs: 0,
    })
  const methods = ['storeTombstone', 'waitForInserts', 'count', 'startDelete', 'isDeleting', 'retireTombstone'] as const
  let now = Date.now()
  let deaths = 0
  let dies = 1
  let failures = 0
  // Each worker dies after the step that its number names, without a word to Postgres.
  while ((await store.find(site, erasure.erasureId))?.status !== 'completed') {
    now += 60_000
    const [taken] = (await store.leases.take(now, 10)).filter(({ id }) => id === erasure.erasureId)
    if (taken === undefined) throw new Error('nobody can take it')
    let calls = 0
    const died = new Error('died')
    const mortal = { ...rig.eraser }
    for (const name of methods) {
      mortal[name] = (async (...args: never[]) => {
        // ClickHouse reports that a mutation fails, and applies it later.
        if (name === 'isDeleting' && failures === 0) throw unavailable('a mutation fails')
        const result = await (rig.eraser[name] as (...args: never[]) => Promise<unknown>)(...args)
        if (++calls === (dies % 5) + 1) throw died
        return result
      }) as never
    }
    try {
      const { next } = await unit(mortal)(taken.job, {
        id: taken.id,
        lease: taken.lease,
        signal: new AbortController().signal,
      })
      await store.leases.release(taken, next === 'done' ? null : now, { isProgress: true })
      dies++
    } catch (error) {
      // As packages/leases/run-unit.ts does.
      if (isRetryable(error)) {
        failures++
        await store.leases.release(taken, now, { isProgress: false })
        continue
      }
      if (error !== died) throw error
      deaths++
      dies++
      // The failures of workers that died do not end it.
      if (taken.failures > 8) await store.leases.fail(taken, 'died', now)
    }
  }
  expect(deaths).toBeGreaterThan(3)
  expect(failures).toBeGreaterThan(0)
  expect(await store.find(site, erasure.erasureId)).toMatchObject({ count: 1, status: 'completed' })
  expect(await stored(site)).toStrictEqual(['kept'])
})

test('exports are withdrawn once, however often the tombstone can not be retired', async () => {
  const site = newId('site')
  await insert(row(site))
  const { erasureId } = await request(site, { user_id: 'ada' })
  const exports = exportStore(rig.postgres)
  let [withdrawn, refused] = [0, 0]
  const unit = erasureUnit({
    erasures: store,
    eraser: {
      ...rig.eraser,
      retireTombstone: async (erased) => {
        if (refused++ < 3) throw unavailable('ClickHouse is read-only')
        await rig.eraser.retireTombstone(erased)
      },
    },
    exports: {
      ...exports,
      withdraw: (...parts) => {
        withdrawn++
        return exports.withdraw(...parts)
      },
    },
    blobs: rig.blobs,
    clock: { now: () => Date.now() },
    deleteEveryMs: 0,
  })
  await waitUntil(async () => (await runUnit(erasureId, unit)) === 'done', 'the erasure is done')
  expect([withdrawn, refused]).toStrictEqual([1, 4])
})

test('exports that are made while a file of an earlier one can not be removed stay', async () => {
  const site = newId('site')
  await insert(row(site))
  const exports = exportStore(rig.postgres)
  const made = async () => {
    const { exportId } = await addExport(exports, { site }, Date.now())
    await finishExport({ exports, blobs: rig.blobs }, exportId, { content: Buffer.from('a file') })
    return exportId
  }
  const withdrawn = await made()
  const { erasureId } = await request(site, { user_id: 'ada' })
  let isRefused = true
  const unit = erasureUnit({
    erasures: store,
    eraser: rig.eraser,
    exports,
    blobs: {
      ...rig.blobs,
      remove: async (names) => {
        if (isRefused) throw unavailable('the key may not remove objects')
        await rig.blobs.remove(names)
      },
    },
    clock: { now: () => Date.now() },
    deleteEveryMs: 0,
  })
  await waitUntil(async () => (await runUnit(erasureId, unit)) === 'failed', 'a file can not be removed')
  expect(await exports.find(withdrawn, null)).toMatchObject({ status: 'expired' })
  const later = await made()
  expect(await runUnit(erasureId, unit)).toBe('failed')
  isRefused = false
  expect(await runUnit(erasureId, unit)).toBe('done')
  expect(await exports.find(later, null)).toMatchObject({ status: 'completed' })
  expect(await rig.blobNames()).toContain(`exports/${later}`)
  expect(await rig.blobNames()).not.toContain(`exports/${withdrawn}`)
  expect(await store.find(site, erasureId)).toMatchObject({ status: 'completed', count: 1 })
})

test('deletions of ClickHouse are checked each half minute while erasures wait to be deleted together', async () => {
  const site = newId('site')
  await insert(row(site))
  const { erasureId } = await request(site, { user_id: 'ada' })
  const at = Date.UTC(2042, 0, 1, 12, 10)
  const unit = erasureUnit({
    erasures: store,
    eraser: rig.eraser,
    exports: exportStore(rig.postgres),
    blobs: rig.blobs,
    clock: { now: () => at },
    deleteEveryMs: hour,
  })
  const nextAfterUnit = async () => {
    const [taken] = (await store.leases.take(at, 10)).filter(({ id }) => id === erasureId)
    if (taken === undefined) throw new Error('nobody can take it')
    const { next } = await unit(taken.job, { ...taken, signal: new AbortController().signal })
    await store.leases.release(taken, next === 'done' ? null : at, { isProgress: true })
    return next
  }
  expect(await nextAfterUnit()).toBe(Date.UTC(2042, 0, 1, 13))
  expect(await nextAfterUnit()).toBe(at + 30_000)
  await waitUntil(async () => (await nextAfterUnit()) === 'done', 'the erasure is done')
  expect(await stored(site)).toStrictEqual([])
})

test('an erasure that was taken once more after its end is completed as it was', async () => {
  const site = newId('site')
  await startWorker()
  const { erasureId, ...erasure } = await completed(await request(site, { user_id: 'ada' }))
  // A state that workers of an earlier build may leave. The update waits until the worker that completed the erasure
  // has ended its lease, because that also clears the due time.
  const taken = rig.postgres.db
    .updateTable('erasures')
    .set({ status: 'processing', due_at: new Date() })
    .where('erasure_id', '=', erasureId)
    .where('lease_until', 'is', null)
  await waitUntil(
    async () => (await taken.executeTakeFirst()).numUpdatedRows === 1n,
    'the lease of the completed erasure ends',
  )
  expect(await completed({ erasureId, ...erasure })).toStrictEqual({ erasureId, ...erasure })
})

test('an erasure that a worker of an earlier build has left at its last step without a due time is completed', async () => {
  const site = newId('site')
  const erasure = await request(site, { user_id: 'ada' })
  await rig.postgres.db
    .updateTable('erasures')
    .set({ status: 'processing', step: 'done', due_at: null })
    .where('erasure_id', '=', erasure.erasureId)
    .execute()
  await startWorker()
  expect(await completed(erasure)).toMatchObject({ step: 'done' })
})

test('export files that may hold it are removed, and those that are being made begin anew', async () => {
  const site = newId('site')
  await insert(row(site, { event_id: 'erased' }), row(site, { event_id: 'kept', user_id: 'bob' }))
  const exports = exportStore(rig.postgres)
  const finished = await addExport(exports, { site }, Date.now())
  await finishExport({ exports, blobs: rig.blobs }, finished.exportId, { content: Buffer.from('erased, kept') })
  const ofOthers = await addExport(exports, { site: `${site}-2` }, Date.now())
  await finishExport({ exports, blobs: rig.blobs }, ofOthers.exportId, { content: Buffer.from('theirs') })
  const running = await addExport(exports, { site }, Date.now())
  const [lease] = await exports.leases.take(Date.now(), 1)
  if (lease?.id !== running.exportId) throw new Error('another export was taken')
  const upload = await rig.blobs.createMultipartUpload(`exports/${running.exportId}`)
  await exports.beginFile(lease, { object: upload.name, uploadId: upload.uploadId })

  await startWorker()
  await completed(await request(site, { user_id: 'ada' }))
  expect(await exports.find(finished.exportId, null)).toMatchObject({ status: 'expired' })
  expect(await exports.find(ofOthers.exportId, null)).toMatchObject({ status: 'completed' })
  expect(await rig.blobNames()).not.toContain(`exports/${finished.exportId}`)
  const late = exports.complete(lease, { rows: 2, bytes: 1, etag: 'e', expiresAt: Date.now() }, Date.now())
  await expect(late).rejects.toThrow(LeaseLostError)
  // It begins anew after a minute, which packages/postgres/exports.test.ts checks.
  const due = rig.postgres.db.updateTable('exports').set({ due_at: new Date() })
  await due.where('export_id', '=', running.exportId).execute()
  stops.push(await rig.startWriter())
  await waitUntil(
    async () => (await exports.find(running.exportId, null))?.status === 'completed',
    'the export is made anew',
  )
  expect(await exports.find(running.exportId, null)).toMatchObject({ rows: 1 })
})

test('more erasures than one statement deletes are completed together', async () => {
  const site = randomUUID()
  const users = Array.from({ length: erasuresPerStatementMax + 1 }, (_, n) => `user ${n}`)
  await insert(...users.map((user) => row(site, { user_id: user })), row(site, { user_id: 'bob', event_id: 'kept' }))
  const requested = await Promise.all(users.map((user) => request(site, { user_id: user })))
  await startWorker()
  for (const erasure of requested) expect(await completed(erasure)).toMatchObject({ count: 1 })
  expect(await stored(site)).toStrictEqual(['kept'])
  const { rows } = await rig.clickHouse.query<{ statements: number }>(
    `SELECT count() AS statements FROM system.mutations
     WHERE database = currentDatabase() AND table = 'events' AND command LIKE {site:String}`,
    { site: `%${site}%` },
  )
  expect(rows[0]?.statements).toBeLessThan(15)
})
