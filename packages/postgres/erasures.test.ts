import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { type LeaseKey, leaseMs } from '@sluice/leases/lease-table'
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

describe('sites have their turns', () => {
  /** Adds erasures of a site, requested one after the other from a time on. Returns their ids. */
  async function addMany(siteId: string, count: number, requestedAt: number): Promise<string[]> {
    const ids = Array.from({ length: count }, () => newId('era'))
    for (const [n, erasureId] of ids.entries()) {
      const erasure = { erasureId, siteId, kind: 'user_id', hashes: null, before: null, keyId: 'key_1' } as const
      await store.create({ ...erasure, requestedAt: requestedAt + n })
    }
    return ids
  }
  const takenSites = async (max: number) => (await store.leases.take(noon, max)).map(({ job }) => job.siteId).sort()

  beforeEach(async () => {
    await sql`TRUNCATE erasures`.execute(postgres.db)
  })

  test('when erasures are taken: those that run count', async () => {
    await addMany('script', 150, noon - 1_000)
    const [late] = await addMany('late', 1, noon - 1)
    expect(await takenSites(4)).toStrictEqual(['late', 'script', 'script', 'script'])
    const leased = await store.leases.take(noon + leaseMs, 3)
    expect(leased.map(({ id }) => id)).toContain(late)
  })

  test('when a slot becomes free after the erasures of one site took all', async () => {
    await addMany('script', 150, noon - 1_000)
    const [first, ...others] = await store.leases.take(noon, 4)
    expect(others).toHaveLength(3)
    if (!first) throw new Error('nothing was taken')
    await addMany('late', 1, noon - 1)
    await store.leases.release(first, noon + 1, { isProgress: true })
    expect(await takenSites(1)).toStrictEqual(['late'])
  })

  test('when more sites have many than there are slots', async () => {
    for (const siteId of ['a', 'b', 'c', 'd', 'e']) await addMany(siteId, 3, noon - 1_000)
    await addMany('late', 1, noon - 1)
    expect(await takenSites(1)).toStrictEqual(['late'])
  })

  test('when erasures are deleted together', async () => {
    await addMany('script', 150, noon - 1_000)
    const [late] = await addMany('late', 1, noon - 1)
    await sql`UPDATE erasures SET step = 'delete'`.execute(postgres.db)
    const deletable = (await store.listDeletable(100)).map(({ erasureId }) => erasureId)
    expect(deletable).toHaveLength(100)
    expect(deletable.indexOf(late ?? '')).toBe(1)
  })
})
