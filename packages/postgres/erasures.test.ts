import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { LeaseKey } from '@sluice/leases/lease-table'
import { newId } from '@sluice/runtime/ids'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type ErasureStep, type ErasureStore, erasureStore, type NewErasure } from './erasures.ts'

const noon = Date.UTC(2024, 4, 15, 12)

let postgres: TestPostgres
let store: ErasureStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = erasureStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

/** Adds an erasure of a site that was requested at a time, and takes it to a step. Returns its lease. */
async function addErasure({
  step,
  requestedAt = noon,
  hashes = null,
}: Partial<NewErasure> & { step: ErasureStep }): Promise<LeaseKey> {
  const erasureId = newId('era')
  await store.create({ erasureId, siteId: 'shop', kind: 'user_id', hashes, before: null, requestedAt, keyId: 'key_1' })
  const lease = (await store.leases.take(noon, 10)).find(({ id }) => id === erasureId)
  if (!lease) throw new Error('nobody can take it')
  await store.advance(lease, step)
  return lease
}

const stepOf = async ({ id }: LeaseKey) => (await store.find('shop', id))?.step

test('a slow worker that has deleted rows takes no erasure back that another worker has taken further', async () => {
  const deleted = await addErasure({ step: 'delete' })
  const further = await addErasure({ step: 'done' })
  await store.advanceDeleted([deleted.id, further.id])
  expect(await stepOf(deleted)).toBe('verify')
  expect(await stepOf(further)).toBe('done')
})

test('when there are more than can be deleted together, the oldest ones are first', async () => {
  const requested = [noon - 2, noon - 4, noon - 1, noon - 3]
  const leases: LeaseKey[] = []
  for (const requestedAt of requested) leases.push(await addErasure({ step: 'delete', requestedAt }))
  const deletable = await store.listDeletable(3)
  expect(deletable.map(({ erasureId }) => erasureId)).toStrictEqual([leases[1]?.id, leases[3]?.id, leases[0]?.id])
})

test('the count of a step that is repeated, when rows are erased already, does not replace a greater one', async () => {
  const lease = await addErasure({ step: 'tombstone' })
  await store.advance(lease, 'delete', 3)
  await store.advance(lease, 'verify', 1)
  expect(await store.find('shop', lease.id)).toMatchObject({ count: 3 })
  await store.advance(lease, 'delete', 4)
  expect(await store.find('shop', lease.id)).toMatchObject({ count: 4 })
})

test('the hashes of a value are kept until a time after the end of its erasure, not after its request', async () => {
  const hashes = { key: '0'.repeat(32), rowKey: '1' }
  const lease = await addErasure({ step: 'done', requestedAt: noon - 10, hashes })
  await store.complete(lease, noon)
  await store.forgetHashes(noon)
  expect(await store.find('shop', lease.id)).toMatchObject({ hashes })
  await store.forgetHashes(noon + 1)
  expect(await store.find('shop', lease.id)).toMatchObject({ hashes: null })
})
