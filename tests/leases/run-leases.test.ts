import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { LeaseLostError, leaseMs } from '@sluice/leases/lease-table'
import { leaseMetrics } from '@sluice/leases/metrics'
import { type LeaseOptions, runLeases } from '@sluice/leases/run-leases'
import type { ImportRecord } from '@sluice/postgres/import-record'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { conflict, internalError, unavailable } from '@sluice/runtime/errors'
import { createMetrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type CapturedLogger, capturedLogger } from '../support/captured-logger.ts'
import { addImport, nextSegment, segmentDone } from '../support/import-jobs.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts'

const noon = Date.UTC(2042, 5, 1, 12)
const done = { next: 'done' } as const
let postgres: TestPostgres
/** The proxy between the workers and Postgres. */
let proxy: TcpProxy
let workersPostgres: Postgres
/** The store of the test, and that of the workers. */
let store: ImportStore
let workersStore: ImportStore
let clock: VirtualClock
let captured: CapturedLogger
let metrics: ReturnType<typeof createMetrics>
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  postgres = await openTestPostgres()
  proxy = await tcpProxy(postgres.url)
  workersPostgres = openPostgres(proxy.url)
  store = importStore(postgres)
  workersStore = importStore(workersPostgres)
})

afterAll(async () => {
  await workersPostgres.close()
  await proxy.close()
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('imports').execute()
  clock = virtualClock(noon)
  captured = capturedLogger()
  metrics = createMetrics()
})

afterEach(async () => {
  await proxy.mend()
  for (const stop of stops.splice(0)) await stop()
})

type Work = LeaseOptions<ImportRecord>['work']

/** Starts a worker; returns the function that stops it, which resolves when it has stopped. */
function start(work: Work, options: Partial<LeaseOptions<ImportRecord>> = {}): () => Promise<void> {
  const component = runLeases({
    kind: 'import',
    table: workersStore.leases,
    work,
    clock,
    concurrency: 1,
    logger: captured.logger,
    leaseMetrics: leaseMetrics(metrics),
    ...options,
  })
  const stopping = new AbortController()
  const run = component.run?.(stopping.signal) ?? Promise.resolve()
  let hasStopped = false
  const ended = run.finally(() => {
    hasStopped = true
  })
  const stop = async (): Promise<void> => {
    stopping.abort()
    await pass(() => hasStopped, 'the worker has stopped')
    await ended
  }
  stops.push(stop)
  return stop
}

/** Lets time pass until `condition` holds; slowly enough for a renewal of Postgres on a busy machine. */
async function pass(condition: () => boolean | Promise<boolean>, what: string, stepMs = 200): Promise<void> {
  await waitUntil(async () => {
    if (await condition()) return true
    await clock.advance(stepMs)
    return false
  }, what)
}

const units = () => captured.lines().filter(({ msg }) => msg === 'unit of work')
const outcomes = () => units().map(({ outcome }) => outcome)
const rowOf = async (id: string) =>
  postgres.db.selectFrom('imports').selectAll().where('import_id', '=', id).executeTakeFirstOrThrow()

const oldestDueSeconds = async () =>
  Number(/^sluice_worker_oldest_due_seconds\{kind="import"\} (\S+)$/m.exec(await metrics.metrics())?.[1])

/** Work that ends when its signal aborts, and the reasons why it did. */
function endless() {
  const signals: AbortSignal[] = []
  const work: Work = (_job, { signal }) => {
    signals.push(signal)
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  }
  return { work, signals }
}

describe('a job', () => {
  test('is worked on in units until it is done, each under a lease of its own', async () => {
    const { importId } = await addImport(store, { segments: 3 }, noon)
    const leases: number[] = []
    start(async (_job, lease) => {
      leases.push(lease.lease)
      const n = await nextSegment(store, lease.id)
      if (n === undefined) {
        await workersStore.complete(lease, clock.now())
        return done
      }
      await workersStore.recordSegment(lease, n, segmentDone)
      return { next: 'now', log: { segment: n } }
    })
    await pass(() => outcomes().includes('done'), 'the import is done')
    expect(outcomes()).toStrictEqual(['more', 'more', 'more', 'done'])
    expect(units()[1]).toMatchObject({ kind: 'import', id: importId, segment: 1, level: 'info' })
    expect(new Set(leases).size).toBe(4)
    expect(await store.find(importId, null)).toMatchObject({ status: 'completed', processedRecords: 300 })
    expect(await rowOf(importId)).toMatchObject({ due_at: null, lease_until: null })
  })

  test('waits until the time that its unit names', async () => {
    await addImport(store, {}, noon)
    const times: number[] = []
    start(() => {
      times.push(clock.now())
      return Promise.resolve({ next: times.length === 1 ? noon + 60_000 : 'done' })
    })
    await pass(() => times.length === 2, 'the second unit has run', 1_000)
    expect(times[1]).toBeGreaterThanOrEqual(noon + 60_000)
    // The clock advances while statements run, which may take long on a busy machine.
    expect(times[1]).toBeLessThanOrEqual(noon + 180_000)
  })

  test('that comes later is taken within a second', async () => {
    const times: number[] = []
    start(() => {
      times.push(clock.now())
      return Promise.resolve(done)
    })
    await clock.advance(10_000)
    await addImport(store, {}, noon + 10_000)
    await pass(() => times.length === 1, 'the job is taken', 100)
    expect(times[0]).toBeLessThanOrEqual(noon + 10_000 + 3_000)
  })

  test('keeps its lease while its unit lasts, however long', async () => {
    const { importId } = await addImport(store, {}, noon)
    let runs = 0
    start(async () => {
      runs++
      await clock.sleep(100_000)
      return done
    })
    await pass(() => runs === 1, 'the unit runs')
    const others: string[] = []
    await pass(
      async () => {
        others.push(...(await store.leases.take(clock.now(), 1)).map(({ id }) => id))
        return outcomes().length > 0
      },
      'the unit has ended',
      500,
    )
    expect(others).toStrictEqual([])
    expect(outcomes()).toStrictEqual(['done'])
    expect((await rowOf(importId)).due_at).toBeNull()
  })
})

describe('a unit is aborted', () => {
  test('when another worker has taken its job, and can record nothing any more', async () => {
    await addImport(store, {}, noon)
    const { work, signals } = endless()
    start(work)
    await pass(() => signals.length === 1, 'the unit runs')
    const [taken] = await store.leases.take(clock.now() + leaseMs, 1)
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(outcomes()).toStrictEqual(['lost'])
    expect(await store.leases.renew(taken ?? { id: '', lease: 0 }, clock.now())).toBe('held')
    expect(await metrics.metrics()).toContain('sluice_worker_leases_lost_total{kind="import"} 1')
  })

  test('when its job is cancelled, within 10 s', async () => {
    const { importId } = await addImport(store, {}, noon)
    const { work, signals } = endless()
    start(work)
    await pass(() => signals.length === 1, 'the unit runs')
    await store.cancel(importId, null, clock.now())
    const cancelledAt = clock.now()
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(outcomes()).toStrictEqual(['cancelled'])
    expect(clock.now() - cancelledAt).toBeLessThanOrEqual(12_000)
    expect(await store.find(importId, null)).toMatchObject({ status: 'cancelled' })
  })

  test('after 25 s without a renewal, before others may take its job', async () => {
    await addImport(store, {}, noon)
    const { work, signals } = endless()
    start(work)
    await pass(() => signals.length === 1, 'the unit runs')
    proxy.freeze()
    await pass(() => signals[0]?.aborted === true, 'the unit is aborted')
    expect(await store.leases.take(clock.now(), 1)).toStrictEqual([])
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(outcomes()).toStrictEqual(['expired'])
    await proxy.mend()
    await pass(() => signals.length === 2, 'the job is taken again')
  })

  test('even when its work minds no signal: its place is free and its lease over', async () => {
    await addImport(store, {}, noon)
    const late = Promise.withResolvers<undefined>()
    const recorded: unknown[] = []
    let runs = 0
    const stop = start(async (_job, lease) => {
      if (runs++ > 0) return done
      await late.promise
      await workersStore.recordSegment(lease, 0, segmentDone).catch((error: unknown) => recorded.push(error))
      return done
    })
    await pass(() => runs === 1, 'the unit runs')
    await stop()
    late.resolve(undefined)
    await waitUntil(() => recorded.length === 1, 'the work has ended')
    expect(recorded[0]).toBeInstanceOf(LeaseLostError)
    expect(outcomes()).toStrictEqual(['stopped'])
  })
})

describe('a unit that fails', () => {
  /** Runs a unit that fails, and returns the delay until the next one in ms. */
  async function delayAfterFailure(importId: string, runs: () => number): Promise<number> {
    const before = runs()
    await pass(() => runs() > before, 'the unit has run', 1_000)
    const failedAt = clock.now()
    await waitUntil(async () => (await rowOf(importId)).lease_until === null, 'the lease has ended')
    const { due_at: dueAt } = await rowOf(importId)
    if (dueAt === null) return Infinity
    await clock.advance(dueAt.getTime() - clock.now())
    return dueAt.getTime() - failedAt
  }

  test('with a retryable error is repeated after 1 s, doubling to 5 min, without end', async () => {
    const { importId } = await addImport(store, {}, noon)
    let runs = 0
    start(() => {
      runs++
      return Promise.reject(unavailable('the log is unavailable'))
    })
    const delays: number[] = []
    while (delays.length < 13) delays.push(await delayAfterFailure(importId, () => runs))
    const doubling = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    expect(delays).toStrictEqual(doubling.map((seconds) => seconds * 1_000))
    expect(units()[0]).toMatchObject({ outcome: 'retried', error: 'the log is unavailable', level: 'warn' })
    expect(await store.find(importId, null)).toMatchObject({ status: 'processing', error: null })
  })

  const refusedRight = sql`DO $$ BEGIN RAISE insufficient_privilege; END $$`

  test.each<[engine: string, work: () => Promise<never>]>([
    ['S3 refuses access', () => Promise.reject(internalError('S3 refuses access'))],
    [
      'Postgres refuses a right',
      () => workersPostgres.run((db) => refusedRight.execute(db)).then(() => Promise.reject(new Error('granted'))),
    ],
  ])('because %s is repeated without end, too, and logged as an error', async (_engine, work) => {
    const { importId } = await addImport(store, {}, noon)
    let runs = 0
    start(() => {
      runs++
      return work()
    })
    const delays: number[] = []
    while (delays.length < 12) delays.push(await delayAfterFailure(importId, () => runs))
    expect(delays.slice(8)).toStrictEqual([256_000, 300_000, 300_000, 300_000])
    expect(units()[0]).toMatchObject({ outcome: 'retried', level: 'error' })
    expect(await store.find(importId, null)).toMatchObject({ status: 'processing', error: null })
  })

  test('otherwise is repeated nine times, then the job has failed, with a text without internals', async () => {
    const { importId } = await addImport(store, {}, noon)
    let runs = 0
    start(() => {
      runs++
      return Promise.reject(new Error('secret path /data/x'))
    })
    const delays: number[] = []
    while (delays.at(-1) !== Infinity) delays.push(await delayAfterFailure(importId, () => runs))
    expect(delays).toHaveLength(10)
    await waitUntil(() => outcomes().length === 10, 'the last unit has ended')
    expect(outcomes()).toStrictEqual([...Array.from({ length: 9 }, () => 'retried'), 'failed'])
    expect(await store.find(importId, null)).toMatchObject({ status: 'failed', error: 'Internal server error' })
    await clock.advance(600_000)
    expect(runs).toBe(10)
  })

  test('tells users the text of an error that is meant for them', async () => {
    const { importId } = await addImport(store, {}, noon)
    await postgres.db
      .updateTable('imports')
      .set({ failures: 9 } as never)
      .execute()
    start(() => Promise.reject(conflict('The file is gone')))
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(await store.find(importId, null)).toMatchObject({ status: 'failed', error: 'The file is gone' })
  })

  test('has ten tries again once one of them has recorded progress', async () => {
    const { importId } = await addImport(store, { segments: 2 }, noon)
    let runs = 0
    start(async (_job, lease) => {
      runs++
      if (runs === 9) await workersStore.recordSegment(lease, 0, segmentDone)
      throw new Error('no luck')
    })
    const delays: number[] = []
    while (delays.length < 10) delays.push(await delayAfterFailure(importId, () => runs))
    expect(delays.slice(7)).toStrictEqual([128_000, 1_000, 2_000])
    expect(await store.find(importId, null)).toMatchObject({ status: 'processing' })
  })

  test('because its worker died counts as well', async () => {
    const { importId } = await addImport(store, {}, noon)
    for (let death = 0; death < 10; death++) await store.leases.take(noon + death * leaseMs, 1)
    await clock.advance(10 * leaseMs)
    let runs = 0
    start(() => {
      runs++
      return Promise.resolve(done)
    })
    await pass(() => outcomes().length === 1, 'the job was taken')
    expect(runs).toBe(0)
    expect(await store.find(importId, null)).toMatchObject({ status: 'failed', error: 'Internal server error' })
  })
})

describe('while Postgres is unavailable', () => {
  test('a failure that could not be noted at once is counted once', async () => {
    const { importId } = await addImport(store, {}, noon)
    let releases = 0
    const table: LeaseOptions<ImportRecord>['table'] = {
      ...workersStore.leases,
      release: async (...call) => {
        releases++
        if (releases < 12) throw unavailable('Postgres is unavailable')
        await workersStore.leases.release(...call)
      },
    }
    start(() => Promise.reject(new Error('no luck')), { table })
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(outcomes()).toStrictEqual(['retried'])
    expect(await rowOf(importId)).toMatchObject({ tries: 1, failures: 1, status: 'processing' })
  })

  test('takes back off and are logged once; they go on when it is back', async () => {
    const { table, calls } = countedTakes()
    let runs = 0
    start(
      () => {
        runs++
        return Promise.resolve(done)
      },
      { table },
    )
    await pass(() => calls() === 2, 'two takes have succeeded')
    await proxy.cut()
    const awaySince = clock.now()
    const before = calls()
    await pass(() => clock.now() - awaySince >= 60_000, 'a minute has passed', 500)
    expect(calls() - before).toBeLessThanOrEqual(11)
    expect(captured.lines().filter(({ msg }) => String(msg).startsWith('jobs could not be taken'))).toHaveLength(1)
    await proxy.mend()
    await addImport(store, {}, clock.now())
    await pass(() => runs === 1, 'the job is taken')
  })

  test('an idle worker reports jobs as due since then, and as taken when it is back', async () => {
    const { table, calls } = countedTakes()
    start(() => Promise.resolve(done), { table })
    await pass(() => calls() === 2, 'two takes have succeeded')
    expect(await oldestDueSeconds()).toBe(0)
    await proxy.cut()
    const awaySince = clock.now()
    await pass(() => clock.now() - awaySince >= 60_000, 'a minute has passed', 500)
    expect(await oldestDueSeconds()).toBeGreaterThanOrEqual(50)
    await proxy.mend()
    await pass(async () => (await oldestDueSeconds()) === 0, 'nothing is due')
  })

  test('a worker whose clock was never compared with that of Postgres takes nothing, and reports jobs as due', async () => {
    await addImport(store, {}, noon)
    const { table, calls } = countedTakes()
    let isCompared = false
    start(() => Promise.resolve(done), { table, clock: { ...clock, isCompared: () => isCompared } })
    await pass(() => clock.now() - noon >= 60_000, 'a minute has passed', 500)
    expect(calls()).toBe(0)
    expect(await oldestDueSeconds()).toBeGreaterThanOrEqual(50)
    isCompared = true
    await pass(() => outcomes().includes('done'), 'the job is done')
  })

  test('a unit whose end could not be noted is noted when it is back, if its lease lasts', async () => {
    const { importId } = await addImport(store, {}, noon)
    start(async () => {
      await proxy.cut()
      return done
    })
    await pass(() => clock.now() > noon + 3_000, 'some seconds have passed')
    expect((await rowOf(importId)).due_at).not.toBeNull()
    await proxy.mend()
    await pass(() => outcomes().length === 1, 'the unit has ended')
    expect(outcomes()).toStrictEqual(['done'])
    expect((await rowOf(importId)).due_at).toBeNull()
  })

  test('what was not recorded is repeated', async () => {
    const { importId } = await addImport(store, {}, noon)
    let runs = 0
    start(async (_job, lease) => {
      runs++
      if (runs === 1) await proxy.cut()
      await workersStore.recordSegment(lease, 0, segmentDone)
      await workersStore.complete(lease, clock.now())
      return done
    })
    await pass(() => runs === 1 && clock.now() > noon + 40_000, 'the lease has lapsed', 500)
    await proxy.mend()
    await pass(() => outcomes().includes('done'), 'the import is done')
    expect(await store.find(importId, null)).toMatchObject({ status: 'completed', processedRecords: 100 })
  })

  function countedTakes() {
    let calls = 0
    const take: ImportStore['leases']['take'] = (...call) => {
      calls++
      return workersStore.leases.take(...call)
    }
    return { table: { ...workersStore.leases, take }, calls: () => calls }
  }
})

describe('a stop', () => {
  test('lets units end for 5 s, aborts them and gives the others their jobs at once', async () => {
    const { importId } = await addImport(store, {}, noon)
    const { work, signals } = endless()
    const stop = start(work)
    await pass(() => signals.length === 1, 'the unit runs')
    const stoppedAt = clock.now()
    const stopped = stop()
    await pass(() => clock.now() - stoppedAt >= 4_800, 'almost 5 s have passed')
    expect(signals[0]?.aborted).toBe(false)
    await stopped
    expect(clock.now() - stoppedAt).toBeLessThanOrEqual(7_200)
    expect(outcomes()).toStrictEqual(['stopped'])
    const [taken] = await store.leases.take(clock.now(), 1)
    expect(taken).toMatchObject({ id: importId, failures: 0 })
  })

  test('takes nothing more from its beginning on, before the component is stopped', async () => {
    const stopping = new AbortController()
    let runs = 0
    start(
      () => {
        runs++
        return Promise.resolve(done)
      },
      { stopping: stopping.signal },
    )
    stopping.abort()
    await addImport(store, {}, noon)
    await clock.advance(5_000)
    expect(await store.leases.take(clock.now(), 1)).toHaveLength(1)
    expect(runs).toBe(0)
  })

  test('ends in time while Postgres hangs', async () => {
    await addImport(store, {}, noon)
    const { work, signals } = endless()
    const stop = start(work)
    await pass(() => signals.length === 1, 'the unit runs')
    proxy.freeze()
    const stoppedAt = clock.now()
    await stop()
    expect(clock.now() - stoppedAt).toBeLessThanOrEqual(7_200)
  })
})

test('the oldest due job and the time of units are measured', async () => {
  const { work, signals } = endless()
  await addImport(store, {}, noon)
  start(work)
  await pass(() => signals.length === 1, 'the unit runs')
  await addImport(store, {}, clock.now())
  const dueAt = clock.now()
  await pass(async () => (await oldestDueSeconds()) >= 20, 'the second job waits')
  expect(await oldestDueSeconds()).toBe((clock.now() - dueAt) / 1000)
})

test('how long a job waited for a worker, and how many there are, is measured', async () => {
  await addImport(store, {}, noon - 20_000)
  const { work, signals } = endless()
  start(work)
  await pass(() => signals.length === 1, 'the unit runs')
  const scrape = await metrics.metrics()
  const waited = Number(/^sluice_worker_job_wait_seconds_sum\{kind="import"\} (\S+)$/m.exec(scrape)?.[1])
  expect(waited).toBeGreaterThanOrEqual(20)
  expect(waited).toBeLessThanOrEqual(20 + (clock.now() - noon) / 1000)
  expect(scrape).toContain('sluice_worker_job_wait_seconds_count{kind="import"} 1')
  expect(scrape).toContain('sluice_worker_leases_lost_total{kind="import"} 0')
  const isCounted = async () =>
    (await metrics.metrics()).includes('sluice_worker_jobs{kind="import",state="running"} 1')
  await pass(isCounted, 'the job is counted')
  expect(await metrics.metrics()).toContain('sluice_worker_jobs_failing{kind="import"} 0')
})

test('the imports of two sites alternate, however many one of them has', async () => {
  const order: string[] = []
  for (let n = 0; n < 5; n++) await addImport(store, { site: 'busy', segments: 3 }, noon)
  await addImport(store, { site: 'quiet', segments: 3 }, noon)
  start(async (job, lease) => {
    order.push(job.siteId)
    await clock.sleep(100)
    const n = await nextSegment(store, lease.id)
    if (n !== undefined) await workersStore.recordSegment(lease, n, segmentDone)
    if ((await nextSegment(store, lease.id)) !== undefined) return { next: 'now' }
    await workersStore.complete(lease, clock.now())
    return done
  })
  await pass(() => order.length === 18, 'all imports are done')
  const pairs = [0, 2, 4].map((at) => order.slice(at, at + 2).sort())
  expect(pairs).toStrictEqual([
    ['busy', 'quiet'],
    ['busy', 'quiet'],
    ['busy', 'quiet'],
  ])
})
