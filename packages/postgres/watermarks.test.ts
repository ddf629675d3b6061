import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { hourMs } from '@sluice/contracts/time-units'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { openPostgres, type Postgres } from './open.ts'
import { type WatermarkStore, watermarkStore } from './watermarks.ts'

const noon = Date.UTC(2026, 0, 15, 12)
let postgres: TestPostgres
let store: WatermarkStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = watermarkStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('log_watermarks').execute()
})

/** The time until which all events of logs with one lane can be read. */
async function allComplete(): Promise<number> {
  const { live, all } = await store.readCompleteTimes()
  expect(all).toBe(live)
  return live
}

test('no time is complete before a writer has reported one', async () => {
  expect(await allComplete()).toBe(0)
})

test('the earliest watermark of the partitions is returned, to the millisecond', async () => {
  await store.advance('a', [noon + 123, noon + 124, noon + 125])
  expect(await allComplete()).toBe(noon + 123)
  await store.advance('a', [noon + 999, noon + 998, undefined])
  expect(await allComplete()).toBe(noon + 125)
})

test('the result is 0 while a partition has no watermark', async () => {
  await store.advance('a', [noon, undefined])
  expect(await allComplete()).toBe(0)
  await store.advance('a', [undefined, noon + 1])
  expect(await allComplete()).toBe(noon)
  // The log has one more partition now.
  await store.advance('a', [undefined, noon + 2, undefined])
  expect(await allComplete()).toBe(0)
})

test('a stored watermark never moves back', async () => {
  await store.advance('a', [noon, noon])
  await store.advance('a', [noon - 1, undefined])
  expect(await allComplete()).toBe(noon)
})

test('a watermark from before the clock of Postgres was set back is unknown, until a writer reports the next one', async () => {
  const isAhead = Date.now() + 2 * hourMs
  await store.advance('a', [isAhead, noon])
  expect(await allComplete()).toBe(0)
  await store.advance('a', [undefined, noon + 1])
  expect(await allComplete()).toBe(0)
  await store.advance('a', [noon + 2, noon])
  expect(await allComplete()).toBe(noon + 1)
  await store.advance('a', [undefined, noon + 3])
  expect(await allComplete()).toBe(noon + 2)
})

test('a log is registered once one of its partitions is stored, and then holds back the time', async () => {
  await store.advance('old', [noon])
  expect(await store.isRegistered('old')).toBe(true)
  expect(await store.isRegistered('new')).toBe(false)
  await store.advance('new', [undefined, undefined])
  expect(await store.isRegistered('new')).toBe(true)
  expect(await allComplete()).toBe(0)
})

test('rows of partitions whose watermark the caller does not know are not touched', async () => {
  await store.advance('a', [noon, noon])
  const held = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  const holder = postgres.db.transaction().execute(async (transaction) => {
    await transaction.selectFrom('log_watermarks').selectAll().where('partition', '=', 1).forUpdate().execute()
    held.resolve(undefined)
    await released.promise
  })
  await held.promise
  // The statement would wait for the row.
  await store.advance('a', [noon + 1, undefined])
  expect(await allComplete()).toBe(noon)
  released.resolve(undefined)
  await holder
  await store.advance('a', [undefined, noon + 2])
  expect(await allComplete()).toBe(noon + 1)
})

test('the watermarks of all logs are included', async () => {
  await store.advance('a', [noon])
  await store.advance('b', [noon - 1, undefined])
  expect(await allComplete()).toBe(0)
  await store.advance('b', [undefined, noon + 1])
  expect(await allComplete()).toBe(noon - 1)
})

test('the backfill log has watermarks of its own, which only the time for all events minds', async () => {
  await store.advance('a', [noon, noon + 1])
  await store.advance('a', [undefined, noon - 5], 'backfill')
  expect(await store.readCompleteTimes()).toStrictEqual({ live: noon, all: 0 })
  await store.advance('a', [noon - 7, undefined], 'backfill')
  expect(await store.readCompleteTimes()).toStrictEqual({ live: noon, all: noon - 7 })
  await store.advance('a', [noon + 9, noon + 9], 'backfill')
  expect(await store.readCompleteTimes()).toStrictEqual({ live: noon, all: noon })
})

test('a backfill log is read once a writer has reported on it, even if it knows no watermark yet', async () => {
  await store.advance('a', [noon])
  await store.advance('b', [undefined], 'backfill')
  expect(await store.isBackfillRead('a')).toBe(false)
  await store.advance('a', [undefined], 'backfill')
  expect(await store.isBackfillRead('a')).toBe(true)
})

test('concurrent reports of several writers never deadlock, and the latest watermarks remain', async () => {
  const writers: Postgres[] = Array.from({ length: 4 }, () => openPostgres(postgres.url))
  const partitions = 8
  await Promise.all(
    writers.map(async (writer, writerIndex) => {
      for (let round = 0; round < 25; round++) {
        const reported = Array.from({ length: partitions }, (_, partition) =>
          (partition + round) % 4 === writerIndex ? noon + round : undefined,
        )
        await watermarkStore(writer).advance('a', reported)
      }
    }),
  )
  const rows = await postgres.db.selectFrom('log_watermarks').select('complete_until').orderBy('partition').execute()
  // In each round one writer reports each partition; the last round has the latest time.
  expect(rows.map(({ complete_until: until }) => until?.getTime())).toStrictEqual(
    Array.from({ length: partitions }, () => noon + 24),
  )
  await Promise.all(writers.map((writer) => writer.close()))
})

test('every method rejects with 503 while Postgres is unavailable', async () => {
  const proxy = await tcpProxy(postgres.url)
  const proxiedPostgres = openPostgres(proxy.url)
  await proxy.cut()
  for (const call of [
    watermarkStore(proxiedPostgres).advance('a', [noon]),
    watermarkStore(proxiedPostgres).readCompleteTimes(),
    watermarkStore(proxiedPostgres).isBackfillRead('a'),
  ]) {
    await expect(call).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  }
  await proxiedPostgres.close()
  await proxy.close()
})

test('a Postgres whose events go through one log forgets the others', async () => {
  for (const log of ['used', 'former', 'lost']) {
    await store.advance(log, [noon, noon])
    await store.advance(log, [noon], 'backfill')
  }
  await store.advance('lost', [undefined, undefined, undefined])
  expect(await store.readCompleteTimes()).toStrictEqual({ live: 0, all: 0 })

  expect(await store.keepOnly('used')).toStrictEqual(['former', 'lost'])
  expect(await store.readCompleteTimes()).toStrictEqual({ live: noon, all: noon })
  expect(await store.isBackfillRead('used')).toBe(true)
  expect(await store.keepOnly('used')).toStrictEqual([])
})
