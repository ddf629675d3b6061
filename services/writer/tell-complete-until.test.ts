import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { acceptance } from '@sluice/contracts/acceptance'
import { unavailable } from '@sluice/contracts/errors'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { type Cuttable, cuttable, openTestPostgres, type TestPostgres } from '@sluice/postgres/testing'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { capturedLogger } from '@sluice/runtime/testing'
import { completeUntilTeller, type TellDeps } from './tell-complete-until.ts'
import {
  blockOfRows,
  createPlace,
  event,
  eventually,
  partitions,
  type Place,
  type RunningWriter,
  runWriter,
} from './writer.test-support.ts'

const margin = acceptance.msMax + acceptance.clockSkewMsMax + 1
let place: Place
let database: TestPostgres
let way: Cuttable
let postgres: Postgres
/** Stops what the test started, the last first. */
let stops: (() => Promise<unknown>)[]

beforeEach(async () => {
  place = await createPlace()
  database = await openTestPostgres()
  way = await cuttable(database.url)
  postgres = openPostgres(way.url)
  stops = []
})

afterEach(async () => {
  for (const stop of stops.reverse()) await stop()
  await postgres.close()
  await way.close()
  await database.drop()
  await place.drop()
})

function startWriter(changes: Parameters<typeof runWriter>[1] = {}): RunningWriter {
  const writer = runWriter(place, changes)
  stops.push(() => writer.stop())
  return writer
}

/** Tells what `writer` does, every 10 ms. */
function startTeller(writer: RunningWriter, changes: Partial<TellDeps> = {}) {
  const { logger, lines } = capturedLogger()
  const metrics: Metrics = createMetrics()
  const { lag } = writer.consumer
  const store = watermarkStore(postgres)
  const teller = completeUntilTeller({ log: place.log, lag, store, logger, metrics, intervalMs: 10, ...changes })
  const abort = new AbortController()
  const running = teller.run?.(abort.signal)
  stops.push(() => {
    abort.abort()
    return running ?? Promise.resolve()
  })
  return { lines, metrics }
}

/** What Postgres was told, by partition; undefined where nobody could tell. */
async function told(): Promise<(number | undefined)[]> {
  const rows = await database.db.selectFrom('log_watermarks').selectAll().orderBy('partition').execute()
  return rows.map(({ complete_until: until }) => until?.getTime())
}

/** Resolves when every partition but those is complete until `margin` before now, or later. */
async function allPassed(except: readonly number[] = []): Promise<(number | undefined)[]> {
  const now = Date.now()
  await eventually('all partitions are complete', async () => {
    const all = await told()
    const rest = all.filter((_, partition) => !except.includes(partition))
    return all.length === partitions && rest.every((until) => until !== undefined && until >= now - margin)
  })
  return told()
}

test('while nothing comes, every partition goes on with the time, the margin behind', async () => {
  startTeller(startWriter())
  for (const until of await allPassed()) expect(until).toBeLessThanOrEqual(Date.now() - margin)
  await allPassed()
})

test('a partition whose blocks are not stored stands, and goes on when they are', async () => {
  const gate = Promise.withResolvers<undefined>()
  const { inserter } = place
  const writer = startWriter({
    inserter: {
      ...inserter,
      insert: async (...call) => {
        if (call[1].queryId.endsWith('-1')) await gate.promise
        return inserter.insert(...call)
      },
    },
  })
  startTeller(writer)
  await allPassed()
  await place.publish(blockOfRows(0, [event('a')]), blockOfRows(1, [event('b')]))
  const publishedAt = Date.now()
  for (let round = 0; round < 5; round++) {
    const all = await allPassed([1])
    expect(all[1]).toBeLessThanOrEqual(publishedAt - margin)
  }
  gate.resolve(undefined)
  await allPassed()
  expect(await place.stored()).toStrictEqual(['a', 'b'])
})

test('a partition of which nobody knows yet is named', async () => {
  const gate = Promise.withResolvers<undefined>()
  await place.publish(blockOfRows(1, [event('a')]))
  const { inserter } = place
  const insert: typeof inserter.insert = (...call) => gate.promise.then(() => inserter.insert(...call))
  startTeller(startWriter({ inserter: { ...inserter, insert } }))
  expect((await allPassed([1]))[1]).toBeUndefined()
  expect(await watermarkStore(database).completeUntil()).toBe(0)
  gate.resolve(undefined)
})

test('what became a dead letter is settled', async () => {
  startTeller(startWriter())
  await place.publish(blockOfRows(0, [event('bad', { environment: 'moon' })]))
  await allPassed()
  expect(await place.dead()).toHaveLength(1)
})

test('a log that takes long to answer makes it no later', async () => {
  const writer = startWriter()
  await eventually('it holds all', () => writer.consumer.lag().length === partitions)
  let askedAt: number | undefined
  const slow = {
    id: () => place.log.id(),
    ends: async () => {
      if (askedAt !== undefined) throw unavailable('asked once')
      const at = (askedAt = Date.now())
      const ends = await place.log.ends()
      await eventually('the clock goes on', () => Date.now() > at)
      return ends
    },
  }
  startTeller(writer, { log: slow })
  await eventually('it was told', async () => (await told()).length === partitions)
  for (const until of await told()) expect(until).toBeLessThanOrEqual((askedAt ?? 0) - margin)
})

test('partitions that go to another writer, and back', async () => {
  const first = startWriter()
  startTeller(first)
  await allPassed()
  const second = runWriter(place)
  const { lag } = second.consumer
  await eventually('the second has its share', () => lag().length > 0 && lag().length < partitions)
  startTeller(second)
  await place.publish(...Array.from({ length: partitions }, (_, n) => blockOfRows(n, [event(`shared-${n}`)])))
  await allPassed()
  expect(await place.stored()).toHaveLength(partitions)
  await second.stop()
  await eventually('the first has them all', () => first.consumer.lag().length === partitions)
  await allPassed()
})

describe('while Postgres is away', () => {
  test.each(['away', 'hanging'])('%s: events are stored, what was told stands, and one line says so', async (how) => {
    const writer = startWriter()
    const { lines, metrics } = startTeller(writer)
    await allPassed()
    const age = async (): Promise<number> => {
      const figure = await metrics.getSingleMetric('sluice_writer_complete_until_age_seconds')?.get()
      return Math.max(...(figure?.values.map(({ value }) => value) ?? []))
    }
    expect(await age()).toBeLessThan(margin / 1000 + 5)
    if (how === 'away') await way.cut()
    else way.freeze()
    const since = performance.now()
    await eventually('it notices', () => lines().length > 0)
    // Before the pool gives up: nothing that stops waits so long.
    expect(performance.now() - since).toBeLessThan(8_000)
    const before = await told()
    await place.publish(...Array.from({ length: 5 }, (_, n) => blockOfRows(0, [event(`away-${n}`)])))
    await eventually('they are stored', async () => (await place.stored()).length === 5)
    const young = await age()
    await eventually('it looks older', async () => (await age()) > young)
    expect(await told()).toStrictEqual(before)
    expect(lines()).toMatchObject([{ level: 'warn', msg: 'complete_until can not be told, it stands' }])
    await way.mend()
    await allPassed()
    expect(lines()).toHaveLength(1)
  })
})
