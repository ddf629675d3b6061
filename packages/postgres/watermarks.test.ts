import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { openPostgres, type Postgres } from './open.ts'
import { cuttable, openTestPostgres, type TestPostgres } from './testing.ts'
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

test('nothing is complete before a writer says so', async () => {
  expect(await store.completeUntil()).toBe(0)
})

test('the earliest partition decides, to the millisecond', async () => {
  await store.advance('a', [noon + 123, noon + 124, noon + 125])
  expect(await store.completeUntil()).toBe(noon + 123)
  await store.advance('a', [noon + 999, noon + 998, undefined])
  expect(await store.completeUntil()).toBe(noon + 125)
})

test('a partition that nobody could tell of holds all back, until somebody can', async () => {
  await store.advance('a', [noon, undefined])
  expect(await store.completeUntil()).toBe(0)
  await store.advance('a', [undefined, noon + 1])
  expect(await store.completeUntil()).toBe(noon)
  // The log got a partition.
  await store.advance('a', [undefined, noon + 2, undefined])
  expect(await store.completeUntil()).toBe(0)
})

test('what was said stays said', async () => {
  await store.advance('a', [noon, noon])
  await store.advance('a', [noon - 1, undefined])
  expect(await store.completeUntil()).toBe(noon)
})

test('every log counts', async () => {
  await store.advance('a', [noon])
  await store.advance('b', [noon - 1, undefined])
  expect(await store.completeUntil()).toBe(0)
  await store.advance('b', [undefined, noon + 1])
  expect(await store.completeUntil()).toBe(noon - 1)
})

test('writers that speak at once', async () => {
  const writers: Postgres[] = Array.from({ length: 4 }, () => openPostgres(postgres.url))
  const partitions = 8
  await Promise.all(
    writers.map(async (writer, own) => {
      for (let round = 0; round < 25; round++) {
        const told = Array.from({ length: partitions }, (_, partition) =>
          (partition + round) % 4 === own ? noon + round : undefined,
        )
        await watermarkStore(writer).advance('a', told)
      }
    }),
  )
  const rows = await postgres.db.selectFrom('log_watermarks').select('complete_until').orderBy('partition').execute()
  // Each partition is told of by one writer in each round: the last says most.
  expect(rows.map(({ complete_until: until }) => until?.getTime())).toStrictEqual(
    Array.from({ length: partitions }, () => noon + 24),
  )
  await Promise.all(writers.map((writer) => writer.close()))
})

test('503 while Postgres is away', async () => {
  const way = await cuttable(postgres.url)
  const cutOff = openPostgres(way.url)
  await way.cut()
  for (const call of [watermarkStore(cutOff).advance('a', [noon]), watermarkStore(cutOff).completeUntil()]) {
    await expect(call).rejects.toMatchObject({ status: 503, retryable: true })
  }
  await cutOff.close()
  await way.close()
})
