import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { type EventEraser, expiredLimitsMax, expiredSitesMax } from '@sluice/event-store/erasures/event-eraser'
import { analyseRetention } from '@sluice/event-store/retention/analyse-retention'
import { type RetentionRunStore, retentionRunStore } from '@sluice/postgres/retention-runs'
import { siteStore } from '@sluice/postgres/sites'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { createImportRig, type ImportRig } from '../../../tests/support/import-rig.ts'
import { retentionUnit } from './retention-unit.ts'

const dayMs = 86_400_000
let rig: ImportRig
let deps: { runs: RetentionRunStore; eraser: EventEraser }

beforeAll(async () => {
  rig = await createImportRig()
  deps = { runs: retentionRunStore(rig.postgres), eraser: rig.eraser }
})

afterAll(async () => {
  await rig.drop()
})

/** Takes the job, whoever holds it. */
async function take(now: number) {
  await rig.postgres.db
    .updateTable('chores')
    .set({ due_at: new Date(now), lease_until: null })
    .execute()
  const [leased] = await deps.runs.leases.take(now, 1)
  if (!leased) throw new Error('the job is not due')
  const { id, lease, job } = leased
  return { job, lease: { id, lease, signal: new AbortController().signal } }
}

/** Settings of sites that never change. */
function keeping(sites: readonly { siteId: string; retentionDays: number }[]) {
  return {
    listRetention: () => Promise.resolve([...sites]),
    findRegistered: () => Promise.resolve(new Map(sites.map(({ siteId, retentionDays }) => [siteId, retentionDays]))),
  }
}

async function insert(rows: readonly Pick<EventRow, 'site_id' | 'timestamp' | 'user_id'>[]): Promise<void> {
  const payloads = rows.map((row) => {
    const event: EventRow = {
      ...row,
      environment: 'prod',
      event_type: 'x',
      event_id: randomUUID(),
      received_at: row.timestamp,
    }
    return Buffer.from(`${JSON.stringify(event)}\n`)
  })
  const statement = { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 20_000 }
  await rig.inserter.insert({ payloads, hasUndated: false }, statement)
}

async function countOf(site: string): Promise<number> {
  const found = await counts(site, raw)
  return found.reduce((sum, { events }) => sum + events, 0)
}

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
  const unit = retentionUnit({ ...deps, sites, clock: { now: () => now } })
  const run = async () => {
    const { job, lease } = await take(now)
    const { next, log } = await unit(job, lease)
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

test('a user whose earlier events were deleted is new in the week of the first event that is left', async () => {
  const site = newId('site')
  // A Monday.
  const now = Math.ceil((Date.now() - 4 * dayMs) / (7 * dayMs)) * 7 * dayMs + 4 * dayMs
  await insert([40, 10, 3].map((days) => ({ site_id: site, user_id: 'known', timestamp: now - days * dayMs })))
  const newUsers = async () => {
    const caller = { key: 'key_1', signal: new AbortController().signal, priority: 'interactive' } as const
    const spec = {
      siteId: site,
      environment: 'prod',
      now,
      receivedAt: now,
      timeZone: 'UTC',
      mode: 'on',
      of: 'user',
    } as const
    const matrix = await analyseRetention({ ...spec, weeks: 3 }, queryReader(rig.clickHouse).runnerFor(caller))
    return matrix.newUsers.map(({ weekStart, size }) => [weekStart, size])
  }
  const weeks = [now - 14 * dayMs, now - 7 * dayMs, now]
  expect(await newUsers()).toStrictEqual(weeks.map((week) => [week, 0]))
  const { job, lease } = await take(now)
  await retentionUnit({ ...deps, sites: keeping([{ siteId: site, retentionDays: 30 }]), clock: { now: () => now } })(
    job,
    lease,
  )
  await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
  expect(await newUsers()).toStrictEqual(weeks.map((week, n) => [week, n === 0 ? 1 : 0]))
})

/** How many DELETEs of events ClickHouse has recorded. */
async function countDeletes(): Promise<number> {
  const { rows } = await rig.clickHouse.query<{ deletes: number }>(
    `SELECT count() AS deletes FROM system.mutations
     WHERE database = currentDatabase() AND table = 'events' AND command LIKE '%\\_row\\_exists = 0%'`,
  )
  return rows[0]?.deletes ?? 0
}

describe('expired events of many sites', () => {
  const now = Math.ceil(Date.now() / dayMs) * dayMs

  test('with the same retention_days are deleted by one DELETE for each partition', async () => {
    const name = newId('site')
    const listed = Array.from({ length: 401 }, (_, n) => ({ siteId: `${name}-${n}`, retentionDays: 1 }))
    const kept = `${name}-kept`
    await insert(
      [...listed.map(({ siteId }) => siteId), kept].map((site) => ({ site_id: site, timestamp: now - 3 * dayMs })),
    )
    const before = await countDeletes()
    const unit = retentionUnit({ ...deps, sites: keeping(listed), clock: { now: () => now } })
    const { job, lease } = await take(now)
    expect(await unit(job, lease)).toMatchObject({ log: { partitions: 1, events: 401 } })
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
    expect((await countDeletes()) - before).toBe(1)
    expect(
      await rig.clickHouse.query('SELECT site_id FROM events WHERE startsWith(site_id, {name:String})', { name }),
    ).toMatchObject({ rows: [{ site_id: kept }] })
  })

  test('with ids of the greatest length, and many different retention_days, fit into one DELETE', async () => {
    const name = newId('site')
    const sites = Array.from({ length: expiredSitesMax }, (_, n) => ({
      siteId: `${name}-${n}`.padEnd(eventLimits.siteIdLengthMax, '€'),
      before: now - 3 * dayMs + (n % expiredLimitsMax),
    }))
    await insert(
      sites.flatMap(({ siteId, before }) => [
        { site_id: siteId, timestamp: before - 1 },
        { site_id: siteId, timestamp: before },
      ]),
    )
    const started = await rig.eraser.startExpiry(sites, () => Promise.resolve())
    expect(started.events).toBe(expiredSitesMax)
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
    const { rows } = await rig.clickHouse.query(
      `SELECT count() AS events, countIf(timestamp < fromUnixTimestamp64Milli({limit:Int64})) AS expired FROM events
       WHERE startsWith(site_id, {name:String})`,
      { name, limit: now - 3 * dayMs },
    )
    expect(rows).toStrictEqual([{ events: expiredSitesMax, expired: 0 }])
  })

  test('are divided where they have more different retention_days than one DELETE takes', async () => {
    const chunks: number[] = []
    const eraser = {
      ...deps.eraser,
      startExpiry: (sites: readonly unknown[]) => {
        chunks.push(sites.length)
        return Promise.resolve({ partitions: 0, events: 0 })
      },
    }
    const listed = Array.from({ length: 2 * expiredLimitsMax + 2 }, (_, n) => ({
      siteId: String(10_000 + n),
      retentionDays: 1 + Math.floor(n / 2),
    }))
    const { job, lease } = await take(now)
    await retentionUnit({ ...deps, eraser, sites: keeping(listed), clock: { now: () => now } })(job, lease)
    expect(chunks).toStrictEqual([2 * expiredLimitsMax, 2])
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has cleaned up')
  })
})

test('very many sites are dealt with in turn, however much expires at the first ones meanwhile', async () => {
  const name = newId('site')
  const listed = Array.from({ length: 2 * expiredSitesMax + 1 }, (_, n) => ({
    siteId: `${name}-${String(n).padStart(4, '0')}`,
    retentionDays: 1,
  }))
  const [first, last] = [listed[0]?.siteId ?? '', listed.at(-1)?.siteId ?? '']
  let now = Math.ceil(Date.now() / dayMs) * dayMs
  await insert([
    { site_id: first, timestamp: now - 3 * dayMs },
    { site_id: first, timestamp: now - dayMs + 1 },
    { site_id: last, timestamp: now - 3 * dayMs },
    { site_id: last, timestamp: now - dayMs + 1 },
  ])
  const unit = retentionUnit({
    ...deps,
    sites: keeping(listed),
    clock: { now: () => now },
  })
  const run = async () => {
    const { job, lease } = await take(now)
    const { next, log } = await unit(job, lease)
    await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
    const pause = Number(next) - now
    now = Number(next)
    return { pause, events: log?.events }
  }
  const left = async () => [await countOf(first), await countOf(last)]
  expect(await run()).toStrictEqual({ pause: 1_000, events: 1 })
  expect(await left()).toStrictEqual([1, 2])
  // The time of the next run: the second event of either site has expired.
  now += dayMs / 2
  // The second chunk of sites has nothing to delete, and is no unit of its own.
  expect(await run()).toMatchObject({ events: 1 })
  expect(await left()).toStrictEqual([1, 1])
  // That run begins at once, as it is overdue.
  expect(await run()).toStrictEqual({ pause: 1_000, events: 1 })
  expect(await left()).toStrictEqual([0, 1])
  expect(await run()).toMatchObject({ events: 1 })
  expect(await left()).toStrictEqual([0, 0])
  expect(now % (dayMs / 2)).toBe(0)
})

test('a run goes on behind the sites that a killed worker has dealt with', async () => {
  const [first, last] = [newId('site'), newId('site')].sort() as [string, string]
  const now = Math.ceil(Date.now() / dayMs) * dayMs
  await insert([
    { site_id: first, timestamp: now - 3 * dayMs },
    { site_id: last, timestamp: now - 3 * dayMs },
  ])
  const sites = keeping([first, last].map((siteId) => ({ siteId, retentionDays: 1 })))
  const begun = await take(now)
  await deps.runs.advance(begun.lease, { at: now - dayMs / 2, afterSite: first })
  const unit = retentionUnit({ ...deps, sites, clock: { now: () => now } })
  const { job, lease } = await take(now)
  expect(job).toStrictEqual({ name: 'retention', run: { at: now - dayMs / 2, afterSite: first } })
  expect(await unit(job, lease)).toMatchObject({ next: now, log: { events: 1 } })
  await waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted')
  expect([await countOf(first), await countOf(last)]).toStrictEqual([1, 0])
  expect((await take(now)).job).toStrictEqual({ name: 'retention', run: null })
})

describe('while a unit looks for expired events', () => {
  async function expiring() {
    const site = newId('site')
    const now = Math.ceil(Date.now() / dayMs) * dayMs
    const sites = siteStore(rig.postgres)
    await sites.create(site, { retention_days: 30 }, 'key_1')
    await insert([{ site_id: site, timestamp: now - 40 * dayMs }])
    /** Does one unit, and `meanwhile` between its reading of the settings and its deletion. */
    const run = async (meanwhile: () => unknown, signal = new AbortController().signal) => {
      const { job, lease } = await take(now)
      const eraser: EventEraser = {
        ...deps.eraser,
        startExpiry: async (...args) => {
          await meanwhile()
          return deps.eraser.startExpiry(...args)
        },
      }
      const unit = retentionUnit({ ...deps, eraser, sites, clock: { now: () => now } })
      return unit(job, { ...lease, signal }).finally(() =>
        waitUntil(async () => !(await rig.eraser.isDeleting()), 'ClickHouse has deleted'),
      )
    }
    return { site, sites, run }
  }

  test('a site that gets a longer retention keeps its events', async () => {
    const { site, sites, run } = await expiring()
    expect(await run(() => sites.update(site, { retention_days: 365 }))).toMatchObject({ next: 'now' })
    expect(await countOf(site)).toBe(1)
    await run(() => undefined)
    expect(await countOf(site)).toBe(1)
    await sites.update(site, { retention_days: 30 })
    await run(() => undefined)
    expect(await countOf(site)).toBe(0)
  })

  test('a site that is to keep its events for ever keeps them', async () => {
    const { site, sites, run } = await expiring()
    expect(await run(() => sites.update(site, { retention_days: null }))).toMatchObject({ next: 'now' })
    expect(await countOf(site)).toBe(1)
  })

  test.each<[what: string, change: (site: string) => Promise<unknown>]>([
    ['gets a shorter retention', (site) => siteStore(rig.postgres).update(site, { retention_days: 7 })],
    ['is deleted', (site) => rig.postgres.db.deleteFrom('sites').where('site_id', '=', site).execute()],
  ])('the unit is not repeated when a site %s', async (_what, change) => {
    const { site, run } = await expiring()
    expect(await run(() => change(site))).toMatchObject({ log: { events: 1 } })
    expect(await countOf(site)).toBe(0)
  })

  test('a worker that loses its lease deletes nothing', async () => {
    const { site, run } = await expiring()
    const abort = new AbortController()
    const lost = new Error('the lease was lost')
    await expect(run(() => abort.abort(lost), abort.signal)).rejects.toBe(lost)
    expect(await countOf(site)).toBe(1)
  })
})

test('a run waits while ClickHouse deletes, and begins no further deletion', async () => {
  const now = Math.ceil(Date.now() / dayMs) * dayMs
  const begun: string[] = []
  const eraser = {
    isDeleting: () => Promise.resolve(true),
    startExpiry: () => Promise.resolve({ partitions: begun.push('expiry'), events: 0 }),
    startCleanup: () => {
      begun.push('cleanup')
      return Promise.resolve()
    },
  }
  const sites = keeping([{ siteId: 'shop', retentionDays: 1 }])
  const { job, lease } = await take(now)
  const unit = retentionUnit({ ...deps, eraser, sites, clock: { now: () => now } })
  expect(await unit(job, lease)).toMatchObject({ next: now + 10_000 })
  expect(begun).toStrictEqual([])
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
  await rig.postgres.db.updateTable('chores').set({ due_at: new Date(), lease_until: null }).execute()
  const stop = await rig.startWorker()
  await waitUntil(async () => (await counts(site, raw)).length === 0, 'the event is deleted')
  const dueAt = async () =>
    (await rig.postgres.db.selectFrom('chores').selectAll().executeTakeFirstOrThrow()).due_at?.getTime() ?? 0
  await waitUntil(async () => (await dueAt()) > Date.now(), 'the next run is set')
  expect((await dueAt()) % (dayMs / 2)).toBe(0)
  await stop()
})
