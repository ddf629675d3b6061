import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { unavailable } from '@sluice/runtime/errors'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { type TcpProxy, tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  partitions,
  type RunningWriter,
  runOldWriter,
  runWriter,
  type TestStores,
  timeoutMs,
} from '../../tests/support/writer.ts'
import { watermarkReporter, type WatermarkReporterDeps } from './watermark-reporter.ts'

const margin = acceptance.msMax + acceptance.clockMarginMs + 1
let stores: TestStores
let database: TestPostgres
let proxy: TcpProxy
let postgres: Postgres
/** Functions that stop everything the test started; they are called in reverse order. */
let stops: (() => Promise<unknown>)[]

beforeEach(async () => {
  stores = await createTestStores()
  database = await openTestPostgres()
  proxy = await tcpProxy(database.url)
  postgres = openPostgres(proxy.url)
  stops = []
})

afterEach(async () => {
  for (const stop of stops.reverse()) await stop()
  await postgres.close()
  await proxy.close()
  await database.drop()
  await stores.drop()
})

function startWriter(changes: Parameters<typeof runWriter>[1] = {}): RunningWriter {
  const writer = runWriter(stores, changes)
  stops.push(() => writer.stop())
  return writer
}

/** Reports the watermarks of `writer` every 10 ms. */
function startReporter(writer: RunningWriter, changes: Partial<WatermarkReporterDeps> = {}) {
  const { logger, lines } = capturedLogger()
  const metrics: Metrics = createMetrics()
  const { lag } = writer.consumer
  const store = watermarkStore(postgres)
  const reporter = watermarkReporter({
    lane: 'live',
    logs: { live: stores.log, backfill: stores.backfill },
    lag,
    store,
    logger,
    metrics,
    clock: exactClock,
    intervalMs: 10,
    ...changes,
  })
  const abort = new AbortController()
  const running = reporter.run?.(abort.signal)
  stops.push(() => {
    abort.abort()
    return running ?? Promise.resolve()
  })
  return { lines, metrics }
}

/** The watermarks in Postgres by partition, Unix ms; undefined where unknown. */
async function storedWatermarks(): Promise<(number | undefined)[]> {
  const rows = await database.db.selectFrom('log_watermarks').selectAll().orderBy('partition').execute()
  return rows.map(({ complete_until: until }) => until?.getTime())
}

/** Resolves when every partition except these is complete until at least `margin` before now. */
async function waitUntilComplete(except: readonly number[] = []): Promise<(number | undefined)[]> {
  const now = Date.now()
  await waitUntil(async () => {
    const all = await storedWatermarks()
    const rest = all.filter((_, partition) => !except.includes(partition))
    return all.length === partitions && rest.every((until) => until !== undefined && until >= now - margin)
  }, 'all partitions are complete')
  return storedWatermarks()
}

test('the watermarks of an idle log follow the time at the distance of the margin', async () => {
  startReporter(startWriter())
  for (const until of await waitUntilComplete()) expect(until).toBeLessThanOrEqual(Date.now() - margin)
  await waitUntilComplete()
})

test('the watermark of a partition does not move while its blocks are not stored', async () => {
  const gate = Promise.withResolvers<undefined>()
  const { inserter } = stores
  const writer = startWriter({
    inserter: {
      ...inserter,
      insert: async (...call) => {
        if (call[1].queryId.endsWith('-1')) await gate.promise
        return inserter.insert(...call)
      },
    },
  })
  startReporter(writer)
  await waitUntilComplete()
  await stores.publish(blockOfRows(0, [event('a')]), blockOfRows(1, [event('b')]))
  const publishedAt = Date.now()
  for (let round = 0; round < 5; round++) {
    const all = await waitUntilComplete([1])
    expect(all[1]).toBeLessThanOrEqual(publishedAt - margin)
  }
  gate.resolve(undefined)
  await waitUntilComplete()
  expect(await stores.stored()).toStrictEqual(['a', 'b'])
})

test('a partition without a watermark is stored as unknown', async () => {
  const gate = Promise.withResolvers<undefined>()
  await stores.publish(blockOfRows(1, [event('a')]))
  const { inserter } = stores
  const insert: typeof inserter.insert = (...call) => gate.promise.then(() => inserter.insert(...call))
  startReporter(startWriter({ inserter: { ...inserter, insert } }))
  expect((await waitUntilComplete([1]))[1]).toBeUndefined()
  expect(await watermarkStore(database).readCompleteTimes()).toStrictEqual({ live: 0, all: 0 })
  gate.resolve(undefined)
})

test('the watermarks of old rows are reported under the log of live ones, which tells gateways that they are read', async () => {
  const store = watermarkStore(database)
  const gate = Promise.withResolvers<undefined>()
  const insert: typeof stores.inserter.insert = (...call) => gate.promise.then(() => stores.inserter.insert(...call))
  await stores.backfill.publish([blockOfRows(1, [event('old')])], { timeoutMs })
  startReporter(startWriter())
  await waitUntil(async () => (await store.readCompleteTimes()).live > 0, 'live rows are complete')
  const logId = await stores.log.id()
  expect(await store.isBackfillRead(logId)).toBe(false)

  const old = runOldWriter(stores, { inserter: { ...stores.inserter, insert } })
  stops.push(() => old.stop())
  const { metrics } = startReporter(old, { lane: 'backfill' })
  await waitUntil(() => store.isBackfillRead(logId), 'it is read')
  await waitUntil(
    async () => (await storedWatermarks()).filter((each) => each === undefined).length === 1,
    'all but one',
  )
  expect((await store.readCompleteTimes()).all).toBe(0)
  gate.resolve(undefined)
  await waitUntil(async () => (await store.readCompleteTimes()).all > 0, 'all rows are complete')
  expect(await stores.stored()).toStrictEqual(['old'])
  expect(metrics.getSingleMetric('sluice_writer_backfill_complete_until_age_seconds')).toBeDefined()
})

test('the watermark moves when blocks are committed, before the ends of the log are requested again', async () => {
  const gate = Promise.withResolvers<undefined>()
  await stores.publish(blockOfRows(1, [event('a')]))
  const { inserter } = stores
  const insert: typeof inserter.insert = (...call) => gate.promise.then(() => inserter.insert(...call))
  const writer = startWriter({ inserter: { ...inserter, insert } })
  await waitUntil(() => writer.consumer.lag().length === partitions, 'it holds all')
  let requests = 0
  const log = {
    id: () => stores.log.id(),
    endOffsets: () => {
      requests++
      return stores.log.endOffsets()
    },
  }
  startReporter(writer, { logs: { live: log, backfill: stores.backfill }, intervalMs: 3_600_000 })
  await waitUntil(async () => (await storedWatermarks()).length === partitions, 'the other partitions are stored')
  expect((await storedWatermarks())[1]).toBeUndefined()
  gate.resolve(undefined)
  await waitUntil(async () => (await storedWatermarks())[1] !== undefined, 'the partition is complete')
  expect(requests).toBe(1)
})

test('a dead letter does not stop the watermark', async () => {
  startReporter(startWriter())
  await stores.publish(blockOfRows(0, [event('bad', { environment: 'moon' })]))
  await waitUntilComplete()
  expect(await stores.dead()).toHaveLength(1)
})

test('a slow response of the log does not advance the watermark too far', async () => {
  const writer = startWriter()
  await waitUntil(() => writer.consumer.lag().length === partitions, 'it holds all')
  let requestedAt: number | undefined
  const slow = {
    id: () => stores.log.id(),
    endOffsets: async () => {
      if (requestedAt !== undefined) throw unavailable('asked once')
      const at = (requestedAt = Date.now())
      const ends = await stores.log.endOffsets()
      await waitUntil(() => Date.now() > at, 'the clock goes on')
      return ends
    },
  }
  startReporter(writer, { logs: { live: slow, backfill: stores.backfill } })
  await waitUntil(async () => (await storedWatermarks()).length === partitions, 'it was told')
  for (const until of await storedWatermarks()) expect(until).toBeLessThanOrEqual((requestedAt ?? 0) - margin)
})

test('the watermarks follow partitions that move to another writer and back', async () => {
  const first = startWriter()
  startReporter(first)
  await waitUntilComplete()
  const second = runWriter(stores)
  const { lag } = second.consumer
  await waitUntil(() => lag().length > 0 && lag().length < partitions, 'the second has its share')
  startReporter(second)
  await stores.publish(...Array.from({ length: partitions }, (_, n) => blockOfRows(n, [event(`shared-${n}`)])))
  await waitUntilComplete()
  expect(await stores.stored()).toHaveLength(partitions)
  await second.stop()
  await waitUntil(() => first.consumer.lag().length === partitions, 'the first has them all')
  await waitUntilComplete()
})

test('a partition that comes back has no age before it has a new watermark', async () => {
  const holdingOf = (partition: number) => ({ partition, committed: 0n, blocks: 0, oldestAppendedAt: undefined })
  const all = Array.from({ length: partitions }, (_, partition) => holdingOf(partition))
  let owned = all
  const ends = all.map(() => 0n)
  let requests = 0
  const log = {
    id: () => Promise.resolve('log'),
    endOffsets: () => {
      requests++
      return Promise.resolve([...ends])
    },
  }
  let reports = 0
  const advance = () => {
    reports++
    return Promise.resolve()
  }
  const { metrics } = startReporter(startWriter(), {
    lag: () => owned,
    logs: { live: log, backfill: log },
    store: { advance },
  })
  const partitionsWithAge = async () => {
    const gauge = await metrics.getSingleMetric('sluice_writer_complete_until_age_seconds')?.get()
    return gauge?.values.map(({ labels }) => Number((labels as { partition?: string }).partition)) ?? []
  }
  /** Resolves after two events more: the first may have begun before. */
  const waitForTwo = (count: () => number, what: string) => {
    const before = count()
    return waitUntil(() => count() >= before + 2, what)
  }
  await waitUntil(async () => (await partitionsWithAge()).length === partitions, 'all have an age')
  owned = all.filter(({ partition }) => partition !== 1)
  ends[1] = 1n
  await waitForTwo(() => requests, 'the new end is known')
  await waitForTwo(() => reports, 'the others are reported')
  owned = all
  await waitForTwo(() => reports, 'they are reported with the partition')
  expect((await partitionsWithAge()).sort()).toStrictEqual(all.map(({ partition }) => partition).filter((n) => n !== 1))
})

describe('while Postgres is unavailable', () => {
  test.each(['away', 'hanging'])(
    '(%s) events are stored, the watermarks do not move, and one line is logged',
    async (how) => {
      const writer = startWriter()
      const { lines, metrics } = startReporter(writer)
      await waitUntilComplete()
      const age = async (): Promise<number> => {
        const figure = await metrics.getSingleMetric('sluice_writer_complete_until_age_seconds')?.get()
        return Math.max(...(figure?.values.map(({ value }) => value) ?? []))
      }
      expect(await age()).toBeLessThan(margin / 1000 + 5)
      if (how === 'away') await proxy.cut()
      else proxy.freeze()
      const elapsedMs = startStopwatch()
      await waitUntil(() => lines().length > 0, 'it notices')
      // Before the pool's own time-out: nothing that stops waits so long.
      expect(elapsedMs()).toBeLessThan(8_000)
      const before = await storedWatermarks()
      await stores.publish(...Array.from({ length: 5 }, (_, n) => blockOfRows(0, [event(`away-${n}`)])))
      await waitUntil(async () => (await stores.stored()).length === 5, 'they are stored')
      const young = await age()
      await waitUntil(async () => (await age()) > young, 'it looks older')
      expect(await storedWatermarks()).toStrictEqual(before)
      expect(lines()).toMatchObject([
        { level: 'warn', msg: 'complete_until could not be stored in Postgres, it does not advance' },
      ])
      await proxy.mend()
      await waitUntilComplete()
      expect(lines()).toHaveLength(1)
    },
  )
})
