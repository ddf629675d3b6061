import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import { erasureStore } from '@sluice/postgres/erasures'
import { siteStore } from '@sluice/postgres/sites'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { createImportRig, type ImportRig } from '../../../tests/support/import-rig.ts'
import { retentionUnit } from './retention-unit.ts'

const dayMs = 86_400_000
let rig: ImportRig

beforeAll(async () => {
  rig = await createImportRig()
})

afterAll(async () => {
  await rig.drop()
})

interface Counts {
  quarter: string
  type: string
  events: number
}

async function counts(site: string, settings: object): Promise<Counts[]> {
  const { rows } = await rig.clickHouse.query<Counts>(
    `SELECT toStartOfFifteenMinutes(timestamp) AS quarter, event_type AS type, count() AS events FROM events
     WHERE site_id = {site:String} GROUP BY quarter, type ORDER BY quarter, type`,
    { site },
    { settings: settings as never },
  )
  return rows
}

const raw = { optimize_use_projections: 0 }
const projected = { optimize_use_projections: 1, force_optimize_projection_name: 'counts' }

async function firstWeeks(site: string, settings: object): Promise<unknown[]> {
  const { rows } = await rig.clickHouse.query(
    `SELECT toString(user_key) AS user, min(timestamp) AS first FROM events WHERE site_id = {site:String}
     GROUP BY user_key ORDER BY user_key`,
    { site },
    { settings: settings as never },
  )
  return rows
}

test('events older than retention_days are deleted, others are not, and projections follow', async () => {
  const sites = siteStore(rig.postgres)
  const [short, long, always] = [newId('site'), newId('site'), newId('site')]
  const daysOf = new Map<string, number>([
    [short, 30],
    [long, 400],
    [always, Infinity],
  ])
  for (const [site, days] of daysOf) {
    await sites.create(
      site,
      {
        name: site,
        timezone: 'UTC',
        conversion_event: null,
        retention_days: days === Infinity ? null : days,
      },
      'key_1',
    )
  }
  // A run.
  const now = Math.floor((2 * Date.now()) / dayMs) * (dayMs / 2)
  const rows: EventRow[] = [...daysOf.keys()].flatMap((site) =>
    Array.from({ length: 300 }, (_, n) => ({
      site_id: site,
      environment: 'prod' as const,
      event_type: n % 2 === 0 ? 'view' : 'click',
      // Some just inside of the limit, and some just outside of it.
      timestamp: now - n * 2 * dayMs + (n % 3) * 60_000 - 60_000,
      event_id: randomUUID(),
      user_id: `user-${n % 7}`,
      received_at: now,
    })),
  )
  await rig.inserter.insert(
    { payloads: rows.map((row) => Buffer.from(`${JSON.stringify(row)}\n`)), hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 },
  )
  const unit = retentionUnit({
    sites,
    erasures: erasureStore(rig.postgres),
    eraser: rig.eraser,
    clock: { now: () => now },
  })
  const lease = { id: 'retention', lease: 1, signal: new AbortController().signal }
  const run = async () => {
    const { next, log } = await unit({ name: 'retention' }, lease)
    expect(Number(next) - now).toBeLessThanOrEqual(dayMs / 2)
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
    return log
  }
  const expected = (site: string) =>
    rows.filter((row) => row.site_id === site && row.timestamp >= now - (daysOf.get(site) ?? 0) * dayMs)
  const expired = rows.length - [...daysOf.keys()].flatMap(expected).length
  expect(await run()).toMatchObject({ sites: 2, events: expired })
  for (const site of daysOf.keys()) {
    const kept = expected(site)
    const left = await counts(site, raw)
    expect(left.reduce((sum, { events }) => sum + events, 0)).toBe(kept.length)
    expect(await counts(site, projected)).toStrictEqual(left)
    expect(await firstWeeks(site, { ...projected, force_optimize_projection_name: 'user_weeks' })).toStrictEqual(
      await firstWeeks(site, raw),
    )
  }
  // Repeats are harmless, and the deleted rows have left the disk.
  expect(await run()).toMatchObject({ events: 0 })
  const { rows: masked } = await rig.clickHouse.query(
    `SELECT name FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active AND has_lightweight_delete`,
  )
  expect(masked).toStrictEqual([])
})

test('the events of very many sites are deleted by several units, each when the one before has ended', async () => {
  const [first, last] = [newId('site'), newId('site')]
  const others = Array.from({ length: 200 }, () => newId('site'))
  const listed = [first, ...others, last].map((siteId) => ({ siteId, retentionDays: 1 }))
  const payloads = [first, last].map((site) => {
    const timestamp = Date.now() - 3 * dayMs
    const row = {
      site_id: site,
      environment: 'prod',
      event_type: 'x',
      event_id: 'old',
      timestamp,
      received_at: timestamp,
    }
    return Buffer.from(`${JSON.stringify(row)}\n`)
  })
  const statement = { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 }
  await rig.inserter.insert({ payloads, hasUndated: false }, statement)
  const now = Date.now()
  const sites = { listRetention: () => Promise.resolve(listed) }
  const unit = retentionUnit({
    sites,
    erasures: erasureStore(rig.postgres),
    eraser: rig.eraser,
    clock: { now: () => now },
  })
  const lease = { id: 'retention', lease: 1, signal: new AbortController().signal }
  const run = async () => {
    const { next, log } = await unit({ name: 'retention' }, lease)
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
    return { pause: Number(next) - now, events: log?.events }
  }
  expect(await run()).toStrictEqual({ pause: 60_000, events: 1 })
  expect(await counts(first, raw)).toStrictEqual([])
  expect(await counts(last, raw)).toHaveLength(1)
  expect(await run()).toMatchObject({ events: 1 })
  expect(await counts(last, raw)).toStrictEqual([])
})

test('the worker does it once it starts, and then twice a day', async () => {
  const site = newId('site')
  const sites = siteStore(rig.postgres)
  await sites.create(site, { name: site, timezone: 'UTC', conversion_event: null, retention_days: 1 }, 'key_1')
  const row = {
    site_id: site,
    environment: 'prod',
    event_type: 'x',
    event_id: 'old',
    timestamp: Date.now() - 2 * dayMs,
  }
  await rig.inserter.insert(
    { payloads: [Buffer.from(`${JSON.stringify({ ...row, received_at: Date.now() })}\n`)], hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 },
  )
  const stop = await rig.startWorker()
  await waitUntil(async () => (await counts(site, raw)).length === 0, 'the event is deleted')
  const dueAt = async () =>
    (await rig.postgres.db.selectFrom('chores').selectAll().executeTakeFirstOrThrow()).due_at?.getTime() ?? 0
  await waitUntil(async () => (await dueAt()) > Date.now(), 'the next run is set')
  expect((await dueAt()) % (dayMs / 2)).toBe(0)
  await stop()
})
