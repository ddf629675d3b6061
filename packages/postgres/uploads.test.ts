import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { addWaitingImports } from '../../tests/support/import-jobs.ts'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { importStore } from './imports.ts'
import { openPostgres } from './open.ts'
import { uploadLeaseMs, type UploadLeaseStore, uploadLeaseStore } from './uploads.ts'

const noon = Date.UTC(2042, 5, 1, 12)
let postgres: TestPostgres
let store: UploadLeaseStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = uploadLeaseStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('uploads').execute()
  await postgres.db.deleteFrom('imports').execute()
})

const begin = (importId: string, at = noon, keyId = 'key_1') => store.begin({ importId, keyId }, at)

test('a key has four uploads at once, however many begin in the same moment, and another one when one has ended', async () => {
  const begun = await Promise.all(Array.from({ length: 12 }, (_, n) => begin(`imp_${n}`)))
  expect(begun.filter(Boolean)).toHaveLength(4)
  expect(await begin('imp_x', noon, 'key_2')).toBe(true)
  const first = begun.indexOf(true)
  expect(await store.end(`imp_${first}`)).toBe(true)
  expect(await store.end(`imp_${first}`)).toBe(false)
  expect([await begin('imp_y'), await begin('imp_z')]).toStrictEqual([true, false])
})

test('an upload counts for a minute after it was renewed last', async () => {
  for (const n of [0, 1, 2, 3]) await begin(`imp_${n}`)
  for (const n of [1, 2, 3]) await store.renew(`imp_${n}`, noon + 20_000)
  expect(await begin('imp_4', noon + uploadLeaseMs - 1)).toBe(false)
  expect(await begin('imp_4', noon + uploadLeaseMs)).toBe(true)
  expect(await begin('imp_5', noon + uploadLeaseMs)).toBe(false)
})

test('a key has at most 1,000 imports that have not ended, with its uploads, however many begin in the same moment', async () => {
  const full = { code: 'conflict', message: 'The key has 1000 imports that have not ended: wait, or cancel some' }
  await addWaitingImports(postgres, 'key_1', 998)
  const begun = await Promise.allSettled(Array.from({ length: 4 }, (_, n) => begin(`imp_${n}`)))
  const refused = begun.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
  expect(refused).toMatchObject([full, full])
  expect(await begin('imp_x', noon, 'key_2')).toBe(true)
  await expect(begin('imp_y', noon + uploadLeaseMs - 1)).rejects.toMatchObject(full)
  expect(await begin('imp_y', noon + uploadLeaseMs)).toBe(true)
  expect(await begin('imp_z', noon + uploadLeaseMs)).toBe(true)
  await expect(begin('imp_0', noon + uploadLeaseMs)).rejects.toMatchObject(full)
  await importStore(postgres).cancel('waiting_1', null, noon)
  expect(await begin('imp_0', noon + uploadLeaseMs)).toBe(true)
})

test('while Postgres is unavailable, every method throws AppError 503', async () => {
  const proxy = await tcpProxy(postgres.url)
  const away = openPostgres(proxy.url)
  const lost = uploadLeaseStore(away)
  await proxy.cut()
  const upload = { importId: 'imp_1', keyId: 'key_1' }
  for (const call of [() => lost.begin(upload, noon), () => lost.renew('imp_1', noon), () => lost.end('imp_1')]) {
    await expect(call()).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  }
  await away.close()
})
