import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { erasureStore } from '@sluice/postgres/erasures'
import { newId } from '@sluice/runtime/ids'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { removeOldHashes } from './erasure-hashes.ts'

const dayMs = 86_400_000
const noon = Date.UTC(2026, 0, 2, 12)
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

test('hashes of erasures that were completed 400 days ago are removed, and none of later ones', async () => {
  const erasures = erasureStore(postgres)
  const hashes = { key: '0'.repeat(32), rowKey: '1' }
  const completedAt = async (at: number): Promise<string> => {
    const erasureId = newId('era')
    const erasure = { erasureId, siteId: 'shop', kind: 'user_id', hashes, before: null, keyId: 'key_1' } as const
    await erasures.create({ ...erasure, requestedAt: at })
    const taken = (await erasures.leases.take(at, 10)).find(({ id }) => id === erasureId)
    if (!taken) throw new Error('the erasure was not taken')
    await erasures.complete(taken, at)
    return erasureId
  }
  const [old, recent] = [await completedAt(noon - 400 * dayMs - 1), await completedAt(noon - 400 * dayMs)]
  const isAhead = { now: () => noon, isCompared: () => false }
  await expect(removeOldHashes(erasures, isAhead)).rejects.toMatchObject({ code: 'unavailable' })
  expect(await erasures.find('shop', old)).toMatchObject({ hashes })
  await removeOldHashes(erasures, { now: () => noon })
  expect(await erasures.find('shop', old)).toMatchObject({ hashes: null })
  expect(await erasures.find('shop', recent)).toMatchObject({ hashes })
})
