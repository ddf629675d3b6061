import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { migratePostgres, migrations } from './migrate.ts'
import { type Shards, type ShardStore, shardStore } from './shards.ts'
import { watermarkStore } from './watermarks.ts'

let postgres: TestPostgres
let store: ShardStore

beforeEach(async () => {
  postgres = await openTestPostgres({ migrated: false })
  store = shardStore(postgres)
})

afterEach(async () => {
  await postgres.drop()
})

async function state(): Promise<Shards> {
  const shards = await store.readState()
  if (shards === undefined) throw new TypeError('no number is recorded')
  return shards
}

async function oldestBuild(): Promise<number | undefined> {
  const { rows } = await sql<{ oldest_build: number }>`
    SELECT oldest_build FROM migration_builds WHERE name = '024-shards'`.execute(postgres.db)
  return rows[0]?.oldest_build
}

test('the number of shards is recorded once, and another one is refused with what to do', async () => {
  await migratePostgres(postgres)
  expect(await store.read()).toBeUndefined()
  await store.requireSame(2)
  await store.record(2)
  await store.record(2)
  expect(await store.read()).toBe(2)
  for (const refused of [store.requireSame(4), store.record(4), store.record(1)]) {
    await expect(refused).rejects.toMatchObject({
      internal: expect.stringContaining('Only "npm run reshard" changes the number of shards') as unknown,
    })
  }
  await expect(store.record(1)).rejects.toMatchObject({
    internal: expect.stringContaining(
      'leads to one server, and the events are stored on a cluster of 2 shards',
    ) as unknown,
  })
  expect(await store.read()).toBe(2)
})

test('a number that is no power of two is refused', async () => {
  await migratePostgres(postgres)
  await expect(store.record(3)).rejects.toThrow('shards_number_check')
})

test('a database whose log is registered has one shard from the migration on', async () => {
  expect(migrations).toHaveProperty('024-shards')
  const before = Object.fromEntries(Object.entries(migrations).filter(([name]) => name < '024'))
  await migratePostgres(postgres, before)
  await watermarkStore(postgres).advance('log', [undefined])
  await migratePostgres(postgres)
  expect(await store.read()).toBe(1)
  await expect(store.record(2)).rejects.toMatchObject({
    internal: expect.stringContaining('stored on one server') as unknown,
  })
})

test('builds that know no shards can work with one, and with several only this build and later ones', async () => {
  await migratePostgres(postgres)
  await store.record(1)
  expect(await oldestBuild()).toBe(1)
  await sql`DELETE FROM shards`.execute(postgres.db)
  await store.record(4)
  expect(await oldestBuild()).toBe(2)
  // A later migration does not admit them again.
  const later = { ...migrations, '999-later': { up: () => Promise.resolve(), oldestBuild: 1 } }
  await migratePostgres(postgres, later)
  expect(await oldestBuild()).toBe(2)
  expect(thisBuild).toBeGreaterThanOrEqual(2)
})

test('a doubling is recorded with the time of its first call, ends, and happens once', async () => {
  await migratePostgres(postgres)
  await store.record(1)
  await store.startDoubling()
  const since = (await store.readState())?.doublingSince
  expect(since).toStrictEqual(expect.any(Number))
  await store.startDoubling()
  expect(await store.readState()).toStrictEqual({ number: 1, doublingSince: since })
  const first = await state()
  await store.cancelDoubling(first)
  expect(await state()).toStrictEqual({ number: 1, doublingSince: null })
  await store.startDoubling()
  const second = await state()
  await store.double(second)
  expect(await state()).toStrictEqual({ number: 2, doublingSince: null })
  expect(await oldestBuild()).toBe(2)
})

test('a doubling that another command has ended is neither ended again nor given up', async () => {
  await migratePostgres(postgres)
  await store.record(1)
  await store.startDoubling()
  const first = await state()
  await store.cancelDoubling(first)
  const ended = { internal: expect.stringContaining('Another "npm run reshard" has ended') as unknown }
  for (const late of [() => store.double(first), () => store.cancelDoubling(first)]) {
    await expect(late()).rejects.toMatchObject(ended)
    // The next one has another start.
    await store.startDoubling()
    await expect(late()).rejects.toMatchObject(ended)
    expect(await state()).toStrictEqual({ number: 1, doublingSince: expect.any(Number) })
    expect(await oldestBuild()).toBe(1)
    await store.cancelDoubling(await state())
  }
})
