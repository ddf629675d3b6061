import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { replayPositionStore } from './replay-positions.ts'

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

test('the positions of a log are kept by partition, apart from those of other logs, and never move back', async () => {
  const store = replayPositionStore(postgres)
  expect(await store.read('a')).toStrictEqual(new Map())
  await store.advance('a', 0, 5n)
  await store.advance('a', 3, 2n ** 62n)
  await store.advance('b', 0, 7n)
  await store.advance('a', 0, 4n)
  expect(await store.read('a')).toStrictEqual(
    new Map([
      [0, 5n],
      [3, 2n ** 62n],
    ]),
  )
})

test('the positions of a log whose topic was created again are deleted, and those of other logs stay', async () => {
  const store = replayPositionStore(postgres)
  await store.advance('anew', 0, 5n)
  await store.advance('anew', 1, 6n)
  await store.advance('other', 0, 7n)
  await store.forget('anew')
  expect(await store.read('anew')).toStrictEqual(new Map())
  expect(await store.read('other')).toStrictEqual(new Map([[0, 7n]]))
})
