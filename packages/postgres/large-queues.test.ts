import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { newId } from '@sluice/runtime/ids'
import { addRule } from '../../tests/support/alert-rules.ts'
import { openTestPostgres, refuseLargeStatements, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addWebhook } from '../../tests/support/webhooks.ts'
import { alertRuleStore } from './alert-rules.ts'
import { deliveryQueue } from './delivery-queue.ts'
import { deliveriesAtOnceMax } from './endpoints.ts'
import { changedAtOnceMax, erasureStore } from './erasures.ts'
import { siteStore } from './sites.ts'
import { webhookStore } from './webhooks.ts'

const noon = Date.UTC(2026, 0, 2, 12)
const count = 2 * deliveriesAtOnceMax + 1
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
  await refuseLargeStatements(postgres.db, 'deliveries', { events: ['UPDATE', 'DELETE'], rowsMax: deliveriesAtOnceMax })
  await refuseLargeStatements(postgres.db, 'erasures', { events: ['UPDATE'], rowsMax: changedAtOnceMax })
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await sql`TRUNCATE endpoints CASCADE`.execute(postgres.db)
})

/** Queues very many deliveries, which are due one after the other. */
async function queueMany(endpointId: string): Promise<void> {
  await sql`
    INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, status, created_at, due_at)
    SELECT ${endpointId} || n, ${endpointId}, 'alert:' || n, 'alert', '', 'pending', time, time
    FROM generate_series(1, ${count}) n, LATERAL (SELECT ${new Date(noon)}::timestamptz + (n / 9) * interval '1 ms') AS made (time)`.execute(
    postgres.db,
  )
}

async function countByStatus(): Promise<unknown> {
  const { rows } = await sql<{ status: string; count: number }>`
    SELECT status, count(*)::int AS count FROM deliveries GROUP BY status`.execute(postgres.db)
  return Object.fromEntries(rows.map(({ status, count: rowCount }) => [status, rowCount]))
}

test('deliveries with very many attempts are listed in pages of bounded size', async () => {
  const webhookId = await addWebhook(postgres)
  await sql`
    INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, status, created_at)
    SELECT 'dlv_' || n, ${webhookId}, 'alert:' || n, 'alert', '', 'failed', now() FROM generate_series(1, 400) n`.execute(
    postgres.db,
  )
  await sql`
    INSERT INTO attempts (delivery_id, n, at, status, latency_ms, response, error)
    SELECT delivery_id, n, now(), 500, 7, ${'😀'.repeat(200)}, 'status 500'
    FROM deliveries, generate_series(1, 100) n`.execute(postgres.db)
  const list = (limit: number) => webhookStore(postgres).listDeliveries(webhookId, undefined, { limit, offset: 0 })
  await expect(list(1_000)).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: limit is too high: the page would be too large, so use a lower limit',
  })
  const { deliveries } = await list(50)
  expect(deliveries.map(({ attempts }) => attempts.length)).toStrictEqual(Array(50).fill(100))
})

describe('an endpoint with very many deliveries', () => {
  test.each([
    ['webhook', (_: string, webhookId: string) => webhookStore(postgres).delete(webhookId, null)],
    [
      'site',
      (siteId: string) => {
        const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null } as const
        return erasureStore(postgres).createForSite({ ...erasure, keyId: 'key_1' }, () => noon)
      },
    ],
  ])('is deleted with its %s', async (_, remove) => {
    const siteId = newId('site')
    await siteStore(postgres).register([siteId])
    const webhookId = await addWebhook(postgres, { siteId })
    await queueMany(webhookId)
    expect(await remove(siteId, webhookId)).toBeTruthy()
    expect(await countByStatus()).toStrictEqual({})
    expect(await webhookStore(postgres).find(webhookId, null)).toBeUndefined()
  })

  test('is deleted with its alert rule', async () => {
    const { ruleId } = await addRule(postgres, { at: noon })
    await queueMany(ruleId)
    expect(await alertRuleStore(postgres).delete(ruleId, ['other'])).toBe(false)
    expect(await countByStatus()).toStrictEqual({ pending: count })
    expect(await alertRuleStore(postgres).delete(ruleId, null)).toBe(true)
    expect(await countByStatus()).toStrictEqual({})
  })

  test('is recovered', async () => {
    const webhookId = await addWebhook(postgres)
    await queueMany(webhookId)
    await sql`UPDATE deliveries SET status = 'succeeded', due_at = NULL WHERE source IN ('alert:1', 'alert:7000')`.execute(
      postgres.db,
    )
    expect(await webhookStore(postgres).recover(webhookId, noon, noon + 5)).toBe(count - 2)
    const { rows } = await sql`
      SELECT count(*)::int AS sent FROM deliveries WHERE requested AND due_at = ${new Date(noon + 5)}`.execute(
      postgres.db,
    )
    expect(rows).toStrictEqual([{ sent: count - 2 }])
  })

  test('is switched off, and gives up what falls due', async () => {
    const webhookId = await addWebhook(postgres)
    await queueMany(webhookId)
    await sql`UPDATE endpoints SET disabled_at = ${new Date(noon)}`.execute(postgres.db)
    const take = () => deliveryQueue(postgres).take(noon + 60_000, { max: 9, failingMax: 9 })
    expect([...(await take()), ...(await take()), ...(await take())]).toStrictEqual([])
    expect(await countByStatus()).toStrictEqual({ failed: count })
  })

  test.each([
    ['off', ''],
    ['on again', 'after it was switched off by its failures'],
  ])('is switched %s %s, and sends nothing from before', async (_, isOff) => {
    const webhookId = await addWebhook(postgres)
    await queueMany(webhookId)
    if (isOff) await sql`UPDATE endpoints SET disabled_at = ${new Date(noon)}`.execute(postgres.db)
    await webhookStore(postgres).update(webhookId, null, () => ({ active: isOff !== '' }), noon)
    expect(await countByStatus()).toStrictEqual({ failed: count })
  })
})

test('the hashes of very many erasures that were completed long ago are removed', async () => {
  await sql`
    INSERT INTO erasures (erasure_id, site_id, kind, key_hash, row_key, status, step, key_id, requested_at, completed_at)
    SELECT 'era_' || n, 'shop', 'user_id', '0', '1', 'completed', 'done', 'key_1', made.at, made.at
    FROM generate_series(1, ${2 * changedAtOnceMax + 1}) n, (SELECT ${new Date(noon)}::timestamptz AS at) AS made`.execute(
    postgres.db,
  )
  await erasureStore(postgres).forgetHashes(noon + 1)
  const { rows } = await sql`SELECT count(*)::int AS count FROM erasures WHERE key_hash IS NOT NULL`.execute(
    postgres.db,
  )
  expect(rows).toStrictEqual([{ count: 0 }])
})
