import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { newId } from '@sluice/runtime/ids'
import { lockAwaited, openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { queueDeliveries, queueForWebhooks } from './deliveries.ts'
import { deleteEndpoint, insertEndpoint, type NewEndpoint, updateEndpoint } from './endpoints.ts'

let postgres: TestPostgres
const now = 1_700_000_000_000
const body = Buffer.from('{}')

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('endpoints').execute()
})

async function add(parts: Partial<NewEndpoint> & { url?: string } = {}): Promise<string> {
  const { url = 'https://a.example/', ...rest } = parts
  const endpointId = newId('wh')
  await insertEndpoint(
    postgres.db,
    {
      endpointId,
      siteId: 'shop',
      owner: 'webhook',
      channel: 'webhook',
      encryptedTarget: Buffer.from(url),
      targetFingerprint: Buffer.from(url),
      encryptedSecret: null,
      events: ['import.completed'],
      active: true,
      summaryInterval: null,
      keyId: 'key_1',
      environment: 'prod',
      ...rest,
    },
    now,
  )
  return endpointId
}

const disable = (endpointId: string): Promise<unknown> =>
  postgres.db
    .updateTable('endpoints')
    .set({ disabled_at: new Date(now) })
    .where('endpoint_id', '=', endpointId)
    .execute()

/** Sorted by source and endpoint, because ids of deliveries from the same millisecond have no order. */
async function stored(): Promise<Record<string, unknown>[]> {
  const rows = await postgres.db.selectFrom('deliveries').selectAll().execute()
  const inOrder = rows.toSorted((a, b) => (`${a.source} ${a.endpoint_id}` < `${b.source} ${b.endpoint_id}` ? -1 : 1))
  return inOrder.map(({ endpoint_id, source, status, due_at }) => ({
    endpoint_id,
    source,
    status,
    due: due_at?.getTime(),
  }))
}

const notice = { siteId: 'shop', environment: 'prod', kind: 'import.completed', source: 'import:1', body, now } as const

test('a source is queued once for each endpoint, and with its transaction or not at all', async () => {
  const endpoint_id = await add()
  const delivery = { endpointId: endpoint_id, source: 'import:1', kind: 'import.completed', body } as const
  const ids = await queueDeliveries(postgres.db, [delivery, { ...delivery, endpointId: 'wh_gone' }], now)
  expect(ids).toStrictEqual([expect.stringMatching(/^dlv_/)])
  expect(await queueDeliveries(postgres.db, [delivery], now + 1)).toStrictEqual([])
  const failed = postgres.db.transaction().execute(async (transaction) => {
    await queueDeliveries(transaction, [{ ...delivery, source: 'import:2' }], now)
    throw new Error('undone')
  })
  await expect(failed).rejects.toThrow('undone')
  expect(await stored()).toStrictEqual([{ endpoint_id, source: 'import:1', status: 'pending', due: now }])
})

test('inactive endpoints get none, disabled ones a failed one, and what was asked for goes to both', async () => {
  const [inactive, disabled] = [await add({ active: false }), await add()]
  await disable(disabled)
  const kind = 'webhook.test'
  const to = [inactive, disabled]
  await queueDeliveries(
    postgres.db,
    to.map((endpointId) => ({ endpointId, source: 'a', kind, body })),
    now,
  )
  expect(await stored()).toStrictEqual([{ endpoint_id: disabled, source: 'a', status: 'failed', due: undefined }])
  const asked = to.map((endpointId) => ({ endpointId, source: 'b', kind, body, requested: true }) as const)
  await queueDeliveries(postgres.db, asked, now)
  expect((await stored()).filter(({ source }) => source === 'b')).toStrictEqual(
    [...to].sort().map((endpoint_id) => ({ endpoint_id, source: 'b', status: 'pending', due: now })),
  )
})

test('webhooks of the site and the environment that take the kind get it, of several with one URL the oldest', async () => {
  const oldest = await add()
  const other = await add({ url: 'https://b.example/' })
  await Promise.all([
    add(),
    add({ siteId: 'blog', url: 'https://c.example/' }),
    add({ environment: 'dev', url: 'https://d.example/' }),
    add({ events: ['alert'], url: 'https://e.example/' }),
    add({ owner: 'alert_rule', url: 'https://f.example/' }),
    add({ active: false, url: 'https://g.example/' }),
  ])
  const fingerprints = await queueForWebhooks(postgres.db, notice)
  expect(fingerprints.map(String).sort()).toStrictEqual(['https://a.example/', 'https://b.example/'])
  expect((await stored()).map(({ endpoint_id }) => endpoint_id).sort()).toStrictEqual([oldest, other].sort())
  const all = await queueForWebhooks(postgres.db, { ...notice, environment: 'all', source: 'import:2' })
  expect(all.map(String)).toContain('https://d.example/')
})

test('a disabled webhook leaves the delivery to a younger one with its URL', async () => {
  const [first, second] = [await add(), await add()]
  await disable(first)
  expect(await queueForWebhooks(postgres.db, notice)).toHaveLength(1)
  expect(await stored()).toMatchObject([{ endpoint_id: second, status: 'pending' }])
  await disable(second)
  // Its URL gets nothing, which an alert rule with the same URL must know.
  expect(await queueForWebhooks(postgres.db, { ...notice, source: 'import:2' })).toStrictEqual([])
  expect(await stored()).toMatchObject([{}, { endpoint_id: first, status: 'failed' }])
})

/** Calls `work` while another transaction deletes the endpoint, which commits once `work` waits for it. */
async function whileDeleting<T>(endpointId: string, work: () => Promise<T>): Promise<T> {
  const started = await postgres.db.transaction().execute(async (transaction) => {
    await deleteEndpoint(transaction, endpointId)
    const working = work()
    await lockAwaited(postgres)
    return { working }
  })
  return started.working
}

test('an endpoint that is being deleted gets none, and the others get theirs', async () => {
  const [deleted, kept] = [await add(), await add({ url: 'https://b.example/' })]
  const deliveries = [deleted, kept].map((endpointId) => ({ ...notice, endpointId }))
  const ids = await whileDeleting(deleted, () => queueDeliveries(postgres.db, deliveries, now))
  expect(ids).toStrictEqual([expect.stringMatching(/^dlv_/)])
  expect(await stored()).toMatchObject([{ endpoint_id: kept }])
})

test('the URL of a webhook that is being deleted gets nothing, which an alert rule with that URL must know', async () => {
  const [deleted, kept] = [await add(), await add({ url: 'https://b.example/' })]
  const fingerprints = await whileDeleting(deleted, () => queueForWebhooks(postgres.db, notice))
  expect(fingerprints).toStrictEqual([Buffer.from('https://b.example/')])
  expect(await stored()).toMatchObject([{ endpoint_id: kept }])
})

test('an endpoint that gets another channel gives up what was made for the former one, also what is being sent', async () => {
  const endpointId = await add()
  await queueForWebhooks(postgres.db, notice)
  await queueForWebhooks(postgres.db, { ...notice, source: 'import:2' })
  await postgres.db
    .updateTable('deliveries')
    .set({ requested: true, lease_until: new Date(now + 60_000) })
    .where('source', '=', 'import:2')
    .execute()
  await updateEndpoint(postgres.db, endpointId, { channel: 'webhook' }, now)
  expect(await stored()).toMatchObject([{ status: 'pending' }, { status: 'pending' }])
  await updateEndpoint(postgres.db, endpointId, { channel: 'slack' }, now)
  expect(await stored()).toMatchObject([{ status: 'failed' }, { status: 'failed' }])
})

test('an endpoint that becomes inactive gives up what waits and not what is being sent, and active: true forgets its failures', async () => {
  const endpointId = await add()
  await queueForWebhooks(postgres.db, notice)
  await queueForWebhooks(postgres.db, { ...notice, source: 'import:2' })
  const leased = { lease_until: new Date(now + 60_000) }
  await postgres.db.updateTable('deliveries').set(leased).where('source', '=', 'import:2').execute()
  await updateEndpoint(postgres.db, endpointId, { active: false }, now)
  expect(await stored()).toMatchObject([{ status: 'failed', due: undefined }, { status: 'pending' }])
  const failing = { failing_since: new Date(now), failures_in_row: 9, exhausted: 2, disabled_reason: 'gone' }
  await postgres.db.updateTable('endpoints').set(failing).execute()
  await disable(endpointId)
  expect(await updateEndpoint(postgres.db, endpointId, { active: true }, now)).toMatchObject({
    active: true,
    failingSince: null,
    failuresInRow: 0,
    exhausted: 0,
    disabledAt: null,
    disabledReason: null,
  })
  expect(await updateEndpoint(postgres.db, 'wh_gone', { active: true }, now)).toBeUndefined()
})
