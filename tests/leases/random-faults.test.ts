import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { sql } from 'kysely'
import { LeaseLostError, leaseMs, type LeaseTable } from '@sluice/leases/lease-table'
import { leaseMetrics } from '@sluice/leases/metrics'
import { runLeases } from '@sluice/leases/run-leases'
import type { ImportRecord } from '@sluice/postgres/import-record'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { openPostgres } from '@sluice/postgres/open'
import type { Clock } from '@sluice/runtime/clock'
import { createMetrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../support/captured-logger.ts'
import { commitsOfSegments, noteCommits } from '../support/import-commits.ts'
import { addImport, nextSegment, segmentDone, segmentRecords } from '../support/import-jobs.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts'

const noon = Date.UTC(2042, 5, 1, 12)
const segments = 4
let postgres: TestPostgres
let store: ImportStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = importStore(postgres)
  await noteCommits(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await clear()
})

async function clear(): Promise<void> {
  await postgres.db.deleteFrom('imports').execute()
  await sql`DELETE FROM commits`.execute(postgres.db)
}

const commits = () => commitsOfSegments(postgres)

/** A worker that can be frozen, as by SIGSTOP or a long pause of its machine, and cut off from Postgres. */
async function startWorker(clock: VirtualClock) {
  const proxy = await tcpProxy(postgres.url)
  const connection = openPostgres(proxy.url, { poolSize: 3 })
  const own = importStore(connection)
  let thawed: PromiseWithResolvers<undefined> | undefined
  /**
   * Called before and after everything that takes time: a frozen worker stops at the next call, and continues there.
   */
  const gate = async (): Promise<void> => {
    while (thawed) await thawed.promise
  }
  const gated =
    <Args extends unknown[], Result>(call: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      await gate()
      try {
        return await call(...args)
      } finally {
        await gate()
      }
    }
  const ownClock: Clock = { now: () => clock.now(), sleep: gated((ms, signal) => clock.sleep(ms, signal)) }
  const { leases } = own
  const table: LeaseTable<ImportRecord> = {
    take: gated((...call) => leases.take(...call)),
    renew: gated((...call) => leases.renew(...call)),
    release: gated((...call) => leases.release(...call)),
    countFailure: gated((...call) => leases.countFailure(...call)),
    fail: gated((...call) => leases.fail(...call)),
    oldestDue: gated((...call) => leases.oldestDue(...call)),
    count: gated((...call) => leases.count(...call)),
  }
  const component = runLeases({
    kind: 'import',
    table,
    work: async (_job, lease) => {
      const n = await gated(nextSegment)(own, lease.id)
      if (n === undefined) {
        await gated(() => own.complete(lease, ownClock.now()))()
        return { next: 'done' }
      }
      await ownClock.sleep(4_000)
      await gated(() => own.recordSegment(lease, n, segmentDone))()
      return { next: 'now' }
    },
    clock: ownClock,
    concurrency: 2,
    logger: capturedLogger().logger,
    leaseMetrics: leaseMetrics(createMetrics()),
  })
  const stopping = new AbortController()
  const ended = component.run?.(stopping.signal) ?? Promise.resolve()
  return {
    freeze: () => {
      thawed ??= Promise.withResolvers()
    },
    thaw: () => {
      thawed?.resolve(undefined)
      thawed = undefined
    },
    proxy,
    /** Ends the worker like a SIGKILL: it stays frozen for ever, and its connections break. */
    kill: async () => {
      thawed ??= Promise.withResolvers()
      await proxy.cut()
      await connection.close()
    },
    stop: async () => {
      stopping.abort()
      let hasEnded = false
      void ended.finally(() => {
        hasEnded = true
      })
      await waitUntil(async () => {
        await clock.advance(200)
        return hasEnded
      }, 'a worker stops')
      await connection.close()
      await proxy.close()
    },
  }
}

type Worker = Awaited<ReturnType<typeof startWorker>>

const worker = fc.nat({ max: 2 })
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 200, max: 15_000 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('freeze' as const), worker }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('thaw' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('kill' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const), worker }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('mend' as const), worker }) },
)

test('three workers that freeze, die and lose Postgres at random record every segment exactly once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      await clear()
      const clock = virtualClock(noon)
      const workers: Worker[] = [await startWorker(clock), await startWorker(clock), await startWorker(clock)]
      const added: string[] = []
      for (const site of ['one', 'one', 'two', 'three']) {
        added.push((await addImport(store, { site, segments }, noon)).importId)
      }
      /** Lets time pass, with pauses in which Postgres answers. */
      const pass = async (ms: number): Promise<void> => {
        const until = clock.now() + ms
        await waitUntil(async () => {
          await clock.advance(Math.min(1_000, until - clock.now()))
          return clock.now() >= until
        }, 'time passes')
      }
      try {
        for (const each of steps) {
          if (each.kind === 'pass') {
            await pass(each.ms)
            continue
          }
          const chosen = workers[each.worker]
          if (!chosen) throw new Error('no such worker')
          if (each.kind === 'freeze') chosen.freeze()
          else if (each.kind === 'thaw') chosen.thaw()
          else if (each.kind === 'cut') await chosen.proxy.cut()
          else if (each.kind === 'reset') chosen.proxy.reset()
          else if (each.kind === 'mend') await chosen.proxy.mend()
          else {
            await chosen.kill()
            workers[each.worker] = await startWorker(clock)
          }
        }
        for (const each of workers) {
          each.thaw()
          await each.proxy.mend()
        }
        const isDone = async () =>
          (await Promise.all(added.map((id) => store.find(id, null)))).every((record) => record?.status === 'completed')
        await waitUntil(async () => {
          await clock.advance(500)
          return isDone()
        }, 'all imports are completed')
      } finally {
        for (const each of workers) await each.stop()
      }
      const once = added.flatMap((id) => Array.from({ length: segments }, (_, n) => `${id}/${n}`))
      expect(await commits()).toStrictEqual(once.sort())
      for (const id of added) {
        const total = segments * segmentRecords
        expect(await store.find(id, null)).toMatchObject({ processedRecords: total, failedRecords: segments })
      }
    }),
    { numRuns: 12, endOnFailure: true },
  )
})

test('a worker that was frozen for longer than its lease changes nothing when it wakes', async () => {
  const { importId } = await addImport(store, { segments }, noon)
  const [frozen] = await store.leases.take(noon, 1)
  const [next] = await store.leases.take(noon + leaseMs, 1)
  if (!frozen || !next) throw new Error('the import was not taken twice')
  await store.recordSegment(next, 0, segmentDone)
  const rows = async () => [
    await postgres.db.selectFrom('imports').selectAll().execute(),
    await postgres.db.selectFrom('import_segments').selectAll().orderBy('n').execute(),
    await commits(),
  ]
  const before = await rows()
  const at = noon + leaseMs
  for (const write of [
    () => store.recordSegment(frozen, 0, segmentDone),
    () => store.recordSegment(frozen, 1, segmentDone),
    () => store.complete(frozen, at),
    () => store.leases.fail(frozen, 'text', at),
    () => store.leases.release(frozen, at, { isProgress: true }),
    () => store.leases.countFailure(frozen, { isCausedByJob: true }),
  ]) {
    await expect(write()).rejects.toThrow(LeaseLostError)
  }
  expect(await store.leases.renew(frozen, at)).toBe('lost')
  expect(await rows()).toStrictEqual(before)
  await store.leases.release(next, at, { isProgress: true })
  expect(await store.find(importId, null)).toMatchObject({ processedRecords: segmentRecords })
})
