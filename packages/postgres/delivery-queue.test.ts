import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { LeaseLostError, leaseMs } from '@sluice/leases/lease-table'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addDelivery, addWebhook } from '../../tests/support/webhooks.ts'
import { type DeliveryQueue, deliveryQueue, type TakenDelivery } from './delivery-queue.ts'
import { updateEndpoint } from './endpoints.ts'
import type { AttemptOutcome } from './record-attempt.ts'

const now = 1_700_000_000_000
const all = { max: 256, failingMax: 128 }
const health = { failingSince: null, failuresInRow: 0, exhausted: 0 }
const done: AttemptOutcome = { status: 'succeeded', dueAt: null, health }
const attempt = { at: now, status: 200, latencyMs: 1, response: 'ok', error: null }
let postgres: TestPostgres
let queue: DeliveryQueue

beforeAll(async () => {
  postgres = await openTestPostgres()
  queue = deliveryQueue(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('endpoints').execute()
})

/** An endpoint with so many deliveries, which has failed so often in a row. */
async function endpointWith(deliveries: number, { failures = 0, at = now, siteId = 'shop' } = {}): Promise<string> {
  const endpointId = await addWebhook(postgres, { siteId })
  await postgres.db
    .updateTable('endpoints')
    .set({ failures_in_row: failures })
    .where('endpoint_id', '=', endpointId)
    .execute()
  for (let n = 0; n < deliveries; n += 1) await addDelivery(postgres, endpointId, at + n)
  return endpointId
}

function countByEndpoint(taken: readonly TakenDelivery[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(taken, (each) => each.endpointId)].map(([id, own]) => [id, own.length]))
}

test('four attempts of an endpoint are taken at a time, of a failing one one', async () => {
  const [two, many, failing] = [await endpointWith(2), await endpointWith(9), await endpointWith(3, { failures: 3 })]
  await endpointWith(1, { at: now + 1_000 })
  const taken = await queue.take(now + 100, all)
  expect(countByEndpoint(taken)).toStrictEqual({ [two]: 2, [many]: 4, [failing]: 1 })
  expect(taken.filter(({ isFailing }) => isFailing).map(({ endpointId }) => endpointId)).toStrictEqual([failing])
  expect(await queue.take(now + 100, all)).toStrictEqual([])
  const [first] = taken.filter(({ endpointId }) => endpointId === many)
  if (first) await queue.record(first, attempt, () => done, now + 100)
  expect(countByEndpoint(await queue.take(now + 100, all))).toStrictEqual({ [many]: 1 })
})

test('when there is little room, each endpoint gets its first attempt before any gets its second', async () => {
  const ids = [await endpointWith(9), await endpointWith(9), await endpointWith(9, { at: now + 50 })]
  const taken = await queue.take(now + 100, { ...all, max: 8 })
  expect(Object.keys(countByEndpoint(taken)).sort()).toStrictEqual([...ids].sort())
  expect(taken).toHaveLength(4)
})

test('a site takes no more slots than are free, so that other sites find one', async () => {
  const count = (taken: readonly TakenDelivery[]) =>
    Object.fromEntries([...Map.groupBy(taken, ({ siteId }) => siteId)].map(([id, own]) => [id, own.length]))
  for (let n = 0; n < 4; n += 1) await endpointWith(9)
  const ofShop = await queue.take(now + 100, { max: 12, failingMax: 0 })
  expect(count(ofShop)).toStrictEqual({ shop: 6 })
  expect(await queue.take(now + 100, { max: 6, failingMax: 0 }, ofShop)).toStrictEqual([])
  for (let n = 0; n < 4; n += 1) await endpointWith(9, { siteId: 'blog', at: now + 50 })
  const ofBlog = await queue.take(now + 100, { max: 6, failingMax: 0 }, ofShop)
  expect(count(ofBlog)).toStrictEqual({ blog: 3 })
  await endpointWith(9, { siteId: 'wiki', at: now + 70 })
  const ofWiki = await queue.take(now + 100, { max: 3, failingMax: 0 }, [...ofShop, ...ofBlog])
  expect(count(ofWiki)).toStrictEqual({ wiki: 2 })
  // The slots of another worker are its own.
  expect(count(await queue.take(now + 100, { max: 3, failingMax: 0 }))).toStrictEqual({ shop: 1, blog: 1, wiki: 1 })
})

test('the failing endpoints of a site leave slots to those of other sites, and to its other endpoints', async () => {
  for (let n = 0; n < 9; n += 1) await endpointWith(1, { failures: 3 })
  const failing = await queue.take(now + 100, { max: 8, failingMax: 4 })
  expect(failing).toHaveLength(2)
  const other = await endpointWith(1, { failures: 3, siteId: 'blog', at: now + 50 })
  const well = await endpointWith(1, { at: now + 50 })
  const taken = await queue.take(now + 100, { max: 2, failingMax: 2 }, failing)
  expect(countByEndpoint(taken)).toStrictEqual({ [other]: 1, [well]: 1 })
})

test('a failing endpoint of another site does not wait for endpoints that may take no slot', async () => {
  for (let n = 0; n < 9; n += 1) await endpointWith(9)
  const ofShop = await queue.take(now + 100, { max: 8, failingMax: 4 })
  expect(ofShop).toHaveLength(4)
  const other = await endpointWith(1, { failures: 3, siteId: 'blog', at: now + 50 })
  expect(countByEndpoint(await queue.take(now + 100, { max: 4, failingMax: 2 }, ofShop))).toStrictEqual({ [other]: 1 })
})

test('failing endpoints and others together leave a slot to the next site', async () => {
  for (const siteId of ['shop', 'blog']) {
    for (let n = 0; n < 4; n += 1) await endpointWith(9, { siteId })
    for (let n = 0; n < 9; n += 1) await endpointWith(1, { siteId, failures: 3 })
  }
  const taken = await queue.take(now + 100, { max: 12, failingMax: 6 })
  expect(taken.filter(({ isFailing }) => !isFailing)).toHaveLength(8)
  expect(taken.filter(({ isFailing }) => isFailing)).toHaveLength(3)
})

test('failing endpoints have their own part of the room', async () => {
  for (let n = 0; n < 4; n += 1) await endpointWith(1, { failures: 3 })
  const well = await endpointWith(1, { at: now + 50 })
  const taken = await queue.take(now + 100, { max: 10, failingMax: 4 })
  expect(taken.filter(({ isFailing }) => isFailing)).toHaveLength(2)
  expect(Object.keys(countByEndpoint(taken))).toContain(well)
  expect(await queue.take(now + 100, { max: 10, failingMax: 0 })).toStrictEqual([])
})

test('failing endpoints, however many wait for longer, keep no other waiting', async () => {
  for (let n = 0; n < 6; n += 1) await endpointWith(1, { failures: 3 })
  const well = await endpointWith(1, { at: now + 50 })
  expect(countByEndpoint(await queue.take(now + 100, { max: 3, failingMax: 1 }))).toMatchObject({ [well]: 1 })
})

test('the same target set anew forgets no failure, another one does', async () => {
  const endpointId = await endpointWith(1, { failures: 3 })
  const failures = async () =>
    (await postgres.db.selectFrom('endpoints').selectAll().executeTakeFirstOrThrow()).failures_in_row
  const { target_box: encryptedTarget, target_fingerprint: targetFingerprint } = await postgres.db
    .selectFrom('endpoints')
    .selectAll()
    .executeTakeFirstOrThrow()
  await updateEndpoint(postgres.db, endpointId, { encryptedTarget, targetFingerprint, events: ['alert'] }, now)
  expect(await failures()).toBe(3)
  await updateEndpoint(postgres.db, endpointId, { encryptedTarget, targetFingerprint: Buffer.from('new') }, now)
  expect(await failures()).toBe(0)
})

test('workers that take at once keep to the slots together', async () => {
  const endpointId = await endpointWith(40)
  for (let round = 0; round < 10; round += 1) {
    const taken = (await Promise.all(Array.from({ length: 6 }, () => queue.take(now + 100, all)))).flat()
    expect(countByEndpoint(taken)).toStrictEqual({ [endpointId]: 4 })
    expect(new Set(taken.map(({ id }) => id)).size).toBe(4)
    await Promise.all(taken.map((each) => queue.record(each, attempt, () => done, now + 100)))
  }
  expect(await queue.take(now + 100, all)).toStrictEqual([])
})

test('the next endpoints are taken instead of those that another worker has locked', async () => {
  const ids: string[] = []
  for (let n = 0; n < 8; n += 1) ids.push(await endpointWith(1, { siteId: `site-${n}`, at: now + n }))
  await postgres.transaction(async (other) => {
    await sql`SELECT FROM endpoints WHERE endpoint_id = ANY (${ids.slice(0, 4)}) FOR NO KEY UPDATE`.execute(other)
    const taken = await queue.take(now + 100, { max: 4, failingMax: 2 })
    expect(taken.map(({ endpointId }) => endpointId).sort()).toStrictEqual(ids.slice(4).sort())
  })
})

test('a delivery whose worker did not record in time is taken by another one; the first can record nothing more', async () => {
  await endpointWith(1)
  const [first] = await queue.take(now, all)
  expect(await queue.take(now + leaseMs - 1, all)).toStrictEqual([])
  const [second] = await queue.take(now + leaseMs, all)
  if (!first || !second) throw new Error('nothing was taken')
  expect(second).toStrictEqual({ ...first, lease: first.lease + 1 })
  await expect(queue.record(first, attempt, () => done, now)).rejects.toThrow(LeaseLostError)
  await queue.release(first)
  await queue.record(second, attempt, () => done, now)
  await expect(queue.record(second, attempt, () => done, now)).rejects.toThrow(LeaseLostError)
  expect(await postgres.db.selectFrom('attempts').select('n').execute()).toStrictEqual([{ n: 1 }])
})

test('a delivery that waits for a slot of its endpoint is not counted as waiting for a worker', async () => {
  await endpointWith(5)
  expect((await queue.measure(now + 100)).oldestDueAt).toBeLessThanOrEqual(now + 100)
  expect(await queue.take(now + 100, all)).toHaveLength(4)
  expect(await queue.measure(now + 100)).toMatchObject({ oldestDueAt: undefined })
  expect((await queue.measure(now + 100 + leaseMs)).oldestDueAt).toBeLessThanOrEqual(now + 100)
})

test('the answer of the former target does not count for an endpoint that was moved during an attempt', async () => {
  const endpointId = await endpointWith(2)
  const [failed, succeeded] = await queue.take(now + 100, all)
  if (!failed || !succeeded) throw new Error('nothing was taken')
  const moved = { encryptedTarget: Buffer.from('new'), targetFingerprint: Buffer.from('new') }
  await updateEndpoint(postgres.db, endpointId, moved, now + 150)
  const worse = { failingSince: now, failuresInRow: 9, exhausted: 9 }
  const off: AttemptOutcome = {
    status: 'failed',
    dueAt: null,
    health: worse,
    disabledReason: 'It answered with status 410.',
  }
  expect(await queue.record(failed, attempt, () => off, now + 200)).toMatchObject({ status: 'pending' })
  expect(await queue.record(succeeded, attempt, () => ({ ...done, health: worse }), now + 200)).toMatchObject({
    status: 'succeeded',
  })
  const endpoint = await postgres.db.selectFrom('endpoints').selectAll().executeTakeFirstOrThrow()
  expect(endpoint).toMatchObject({ disabled_at: null, failing_since: null, failures_in_row: 0, exhausted: 0 })
  expect(await queue.take(now + 200, all)).toMatchObject([{ id: failed.id, encryptedTarget: Buffer.from('new') }])
})

describe('a webhook that is switched off during a recovery', () => {
  const off: AttemptOutcome = { status: 'failed', dueAt: null, health, disabledReason: 'It answered with status 410.' }
  const request = async (ids: readonly string[]) => {
    const requested = { status: 'pending', requested: true, due_at: new Date(now) } as const
    await postgres.db.updateTable('deliveries').set(requested).where('delivery_id', 'in', ids).execute()
  }
  const switches: [how: string, switchOff: (endpointId: string, first: TakenDelivery) => Promise<unknown>][] = [
    ['a 410', (_, first) => queue.record(first, attempt, () => off, now + 200)],
    ['active: false', (endpointId) => updateEndpoint(postgres.db, endpointId, { active: false }, now + 200)],
  ]

  test.each(switches)('by %s gets no more of it, but a test and what is requested later', async (_, switchOff) => {
    const endpointId = await addWebhook(postgres, {})
    const ids: string[] = []
    for (let n = 0; n < 9; n += 1) ids.push(await addDelivery(postgres, endpointId, now + n))
    await request(ids)
    const taken = await queue.take(now + 100, all)
    expect(taken).toHaveLength(4)
    const [first] = taken
    if (!first) throw new Error('nothing was taken')
    const [waiting = '', testId = ''] = ids.filter((id) => !taken.some((each) => each.id === id))
    await postgres.db
      .updateTable('deliveries')
      .set({ kind: 'webhook.test' })
      .where('delivery_id', '=', testId)
      .execute()
    for (const each of taken.slice(1)) await queue.record(each, attempt, () => done, now + 100)
    await switchOff(endpointId, first)
    expect((await queue.take(now + 300, all)).map(({ id }) => id)).toStrictEqual([testId])
    await request([waiting])
    // A change of a webhook that is off already does not end what was requested meanwhile.
    await updateEndpoint(postgres.db, endpointId, { active: false }, now + 300)
    expect((await queue.take(now + 300, all)).map(({ id }) => id)).toStrictEqual([waiting])
  })
})

test('the target of an alert rule that an earlier build has switched off is sent to', async () => {
  const endpointId = await endpointWith(1)
  const owner = { owner: 'alert_rule', disabled_at: new Date(now), disabled_reason: 'It failed.' } as const
  await postgres.db.updateTable('endpoints').set(owner).where('endpoint_id', '=', endpointId).execute()
  expect(await queue.measure(now)).toMatchObject({ disabled: 0 })
  await addDelivery(postgres, endpointId, now)
  const taken = await queue.take(now + 100, all)
  expect(taken).toHaveLength(2)
  const [first] = taken
  if (!first) throw new Error('nothing was taken')
  await queue.record(
    first,
    attempt,
    (_, { isEnabled, canBeDisabled }) => {
      expect([isEnabled, canBeDisabled]).toStrictEqual([true, false])
      return done
    },
    now,
  )
})

test('a delivery that was given back is taken again at once', async () => {
  await endpointWith(1)
  const [first] = await queue.take(now, all)
  if (!first) throw new Error('nothing was taken')
  await queue.release(first)
  expect(await queue.take(now, all)).toMatchObject([{ id: first.id }])
})

test('old deliveries that have no attempt left are removed, and those that are still to be sent are kept', async () => {
  await endpointWith(2)
  const [sent, waiting] = await queue.take(now + 100, all)
  if (!sent || !waiting) throw new Error('nothing was taken')
  await queue.record(sent, attempt, () => done, now + 100)
  await queue.record(waiting, attempt, () => ({ status: 'pending', dueAt: now + 60_000, health }), now + 100)
  expect(await queue.removeOld(now + 1_000, 10)).toBe(1)
  const kept = await postgres.db.selectFrom('deliveries').select('delivery_id').execute()
  expect(kept).toStrictEqual([{ delivery_id: waiting.id }])
})

test('the last hundred attempts of a delivery are kept', async () => {
  await endpointWith(1)
  await postgres.db.updateTable('deliveries').set({ attempts: 99 }).execute()
  const retried: AttemptOutcome = { status: 'pending', dueAt: now, health }
  const numbers = async () => {
    const [taken] = await queue.take(now, all)
    if (!taken) throw new Error('nothing was taken')
    await queue.record(taken, attempt, () => retried, now)
    const rows = await postgres.db.selectFrom('attempts').select('n').orderBy('n').execute()
    return rows.map(({ n }) => n)
  }
  const { delivery_id } = await postgres.db.selectFrom('deliveries').select('delivery_id').executeTakeFirstOrThrow()
  for (const n of [1, 2]) {
    const past = { delivery_id, n, at: new Date(now), status: 500, latency_ms: 1, response: '', error: 'status 500' }
    await postgres.db.insertInto('attempts').values(past).execute()
  }
  expect(await numbers()).toStrictEqual([1, 2, 100])
  expect(await numbers()).toStrictEqual([2, 100, 101])
  expect(await numbers()).toStrictEqual([100, 101, 102])
})
