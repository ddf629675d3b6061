import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { DeliveryWithPayload, NewWebhookResource, WebhookResource } from '@sluice/contracts/webhooks'
import { webhookLimits } from '@sluice/contracts/webhooks'
import { siteStore } from '@sluice/postgres/sites'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { checkDelivery } from '../../../tests/support/check-delivery.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { allRows, lockAwaited } from '../../../tests/support/test-postgres.ts'
import { addDelivery, addWebhook, testSecrets } from '../../../tests/support/webhooks.ts'

let query: TestQuery
/** Bound to the site `shop`. */
let own: string

const url = 'http://127.0.0.1:9/hook'
const good = { site_id: 'shop', url, events: ['alert'] }

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop', 'blog'])
  own = await query.createKey({ scopes: ['admin'], siteIds: ['shop'], environment: 'dev' })
})

afterAll(async () => {
  await query.stop()
})

afterEach(async () => {
  await query.postgres.db.deleteFrom('endpoints').execute()
})

const path = (...parts: string[]) => ['/api/v1/webhooks', ...parts].join('/')
const post = (to: string, body?: unknown, key?: string) =>
  query.request(to, { method: 'POST', body, ...(key === undefined ? {} : { key }) })
const put = (webhookId: string, body: unknown) => query.request(path(webhookId), { method: 'PUT', body })

async function create(parts: object = {}, key?: string): Promise<NewWebhookResource> {
  const { status, body } = await post(path(), { ...good, ...parts }, key)
  expect([status, body.error]).toStrictEqual([201, undefined])
  return body.data as NewWebhookResource
}

const read = async (webhookId: string) => (await query.request(path(webhookId))).body.data as WebhookResource

const endpoint = (webhookId: string) =>
  query.postgres.db.selectFrom('endpoints').selectAll().where('endpoint_id', '=', webhookId).executeTakeFirstOrThrow()

describe('POST /api/v1/webhooks', () => {
  test('makes a webhook with a secret that is shown only once and stored encrypted', async () => {
    const { secret = '', ...webhook } = await create({}, own)
    expect(webhook).toStrictEqual({
      webhook_id: expect.stringMatching(/^wh_/),
      ...good,
      active: true,
      summary_interval: '1d',
      environment: 'dev',
      created_at: expect.any(Number),
      updated_at: webhook.created_at,
      failing_since: null,
      disabled_at: null,
      disabled_reason: null,
      previous_secret_expires_at: null,
    })
    expect(secret).toMatch(/^[\w-]{32}$/)
    expect(await read(webhook.webhook_id)).toStrictEqual(webhook)
    const { secret_box: box } = await endpoint(webhook.webhook_id)
    expect(box && testSecrets.decrypt(box)).toBe(secret)
    const stored = JSON.stringify(await allRows(query.postgres))
    for (const hidden of [secret, url]) expect(stored).not.toContain(hidden)
  })

  test('is made once for an Idempotency-Key, unless its answer holds a generated secret, which is not stored', async () => {
    const once = (body: object) =>
      query.request(path(), { method: 'POST', body, headers: { 'Idempotency-Key': 'deploy-7' } })
    const generated = [await once(good), await once(good)].map(({ body }) => body.data as NewWebhookResource)
    expect(generated[0]?.webhook_id).not.toBe(generated[1]?.webhook_id)
    expect(generated[0]?.secret).not.toBe(generated[1]?.secret)

    const sent = { ...good, secret: 'x' }
    const first = await once(sent)
    const repeated = await once(sent)
    expect(first.status).toBe(201)
    expect(repeated.body).toStrictEqual(first.body)
    expect(repeated.headers.get('idempotency-replayed')).toBe('true')
    expect((await once({ ...sent, active: false })).status).toBe(409)
    expect(await query.postgres.db.selectFrom('endpoints').select('endpoint_id').execute()).toHaveLength(3)
  })

  test('takes all fields, and does not repeat a secret that was sent', async () => {
    const sent = { active: false, summary_interval: '1h', events: ['event_summary', 'webhook.test'] }
    const made = await create({ ...sent, secret: 'x' })
    expect(made).toMatchObject(sent)
    expect(made).not.toHaveProperty('secret')
    await create({ secret: '\u{1f511}'.repeat(256) })
  })

  test.each([
    [{ url: undefined }, 'Missing required field: url'],
    [{ events: undefined }, 'Missing required field: events'],
    [{ events: [] }, 'Invalid field: events must name at least one kind'],
    [{ events: ['alert', 'alert'] }, 'Invalid field: events.1 must name each kind once'],
    [{ events: ['event'] }, expect.stringMatching(/^Invalid field: events\.0 must be one of: alert, /)],
    [{ secret: '' }, 'Invalid field: secret must not be empty'],
    [{ secret: 'x'.repeat(257) }, 'Invalid field: secret exceeds maximum length of 256'],
    [{ summary_interval: '2h' }, 'Invalid field: summary_interval must be one of: 1h, 1d'],
    [{ active: 'yes' }, 'Invalid field: active must be a boolean'],
    [{ url: `http://127.0.0.1/${'x'.repeat(2_048)}` }, 'Invalid field: url exceeds maximum length of 2048'],
    [{ url: 'ftp://127.0.0.1/' }, expect.stringMatching(/^Invalid field: url must begin with/)],
    [{ url: 'http://a:b@127.0.0.1/' }, expect.stringMatching(/^Invalid field: url must not hold/)],
    [{ url: 'http://127.0.0.1:25/' }, expect.stringMatching(/^Invalid field: url must not use port 25/)],
    [{ url: 'http://10.0.0.1/' }, expect.stringMatching(/^Invalid field: url names the address 10\.0\.0\.1/)],
    [{ more: 1 }, 'Invalid field: more is not known'],
  ])('refuses %j', async (parts, error) => {
    const { status, body } = await post(path(), { ...good, ...parts })
    expect([status, body.error]).toStrictEqual([400, error])
    if ('url' in parts && parts.url !== undefined) {
      const webhookId = await addWebhook(query.postgres)
      expect((await put(webhookId, parts)).body.error).toStrictEqual(error)
    }
  })

  test('takes a URL whose host can’t be resolved now: each delivery resolves it anew', async () => {
    const { status, body } = await post(path(), { ...good, url: 'http://name.invalid/' })
    expect([status, body.data]).toMatchObject([201, { url: 'http://name.invalid/' }])
  })

  test('refuses one more than a site may have, and another site goes on', async () => {
    for (let n = 0; n < webhookLimits.webhooksPerSiteMax; n += 1) await addWebhook(query.postgres)
    const { status, body } = await post(path(), good)
    expect([status, body.error]).toStrictEqual([409, 'Site has 100 webhooks, the maximum: delete one first'])
    await create({ site_id: 'blog' })
  })
})

test('GET /api/v1/webhooks lists a site’s webhooks, newest first, in pages', async () => {
  const made = [await create(), await create(), await create()].map(({ secret: _, ...webhook }) => webhook)
  await create({ site_id: 'blog' })
  await addWebhook(query.postgres, { owner: 'alert_rule' })
  const { body } = await query.request(`${path()}?site_id=shop&limit=2&offset=1`)
  expect(body.data).toStrictEqual({ webhooks: [made[1], made[0]], total: 3, limit: 2, offset: 1 })
})

describe('PUT /api/v1/webhooks/{webhook_id}', () => {
  test('changes what it names alone', async () => {
    const { secret: _, ...before } = await create()
    const changes = { url: 'http://127.0.0.2/', events: ['import.completed'], summary_interval: '1h' }
    const { body } = await put(before.webhook_id, { ...changes, site_id: 'shop' })
    expect(body.data).toStrictEqual({ ...before, ...changes, updated_at: expect.any(Number) })
    expect((await put(before.webhook_id, {})).body.data).toStrictEqual(body.data)
    expect((await put(before.webhook_id, { site_id: 'blog' })).body.error).toBe(
      "Invalid field: site_id can't be changed",
    )
  })

  test('active: true switches a webhook on again that was switched off', async () => {
    const { webhook_id: webhookId } = await create()
    const at = new Date()
    const off = { disabled_at: at, disabled_reason: 'gone', failing_since: at, failures_in_row: 7, exhausted: 2 }
    await query.postgres.db.updateTable('endpoints').set(off).execute()
    expect(await read(webhookId)).toMatchObject({ disabled_at: at.getTime(), disabled_reason: 'gone' })
    const { body } = await put(webhookId, { active: true })
    expect(body.data).toMatchObject({ active: true, disabled_at: null, disabled_reason: null, failing_since: null })
    expect(await endpoint(webhookId)).toMatchObject({ failures_in_row: 0, exhausted: 0 })
  })

  test('sets a URL anew that was stored with another key, which lists show as empty', async () => {
    const { secret: _, ...lost } = await create()
    const target_box = createSecretCipher(randomBytes(32).toString('hex')).encrypt(url)
    await query.postgres.db.updateTable('endpoints').set({ target_box }).execute()
    const { secret: __, ...kept } = await create({ url: 'http://127.0.0.1:9/other' })
    const listed = await query.request(`${path()}?site_id=shop`)
    expect(listed.body.data).toMatchObject({ webhooks: [kept, { ...lost, url: '' }], total: 2 })
    expect((await put(lost.webhook_id, { active: false })).body.data).toMatchObject({ active: false, url: '' })
    expect((await put(lost.webhook_id, { url })).body.data).toMatchObject({ url })
    expect(await read(lost.webhook_id)).toMatchObject({ url })
  })

  test('replaces the secret at once', async () => {
    const { webhook_id: webhookId } = await create()
    await post(path(webhookId, 'rotate-secret'), { overlap: '1d' })
    expect((await put(webhookId, { secret: 'another' })).body.data).not.toHaveProperty('secret')
    const { secret_box: box, previous_secret_box: previous } = await endpoint(webhookId)
    expect([box && testSecrets.decrypt(box), previous]).toStrictEqual(['another', null])
  })
})

test('rotate-secret makes a secret, and keeps the old one for the overlap', async () => {
  const { webhook_id: webhookId, secret: first = '' } = await create()
  const { status, body } = await post(path(webhookId, 'rotate-secret'), { overlap: '1d' })
  const { secret: second = '', previous_secret_expires_at: until } = body.data as NewWebhookResource
  expect([status, second === first]).toStrictEqual([200, false])
  expect((until ?? 0) - Date.now()).toBeGreaterThan(86_000_000)
  const { secret_box: box, previous_secret_box: previous } = await endpoint(webhookId)
  expect([box, previous].map((each) => each && testSecrets.decrypt(each))).toStrictEqual([second, first])
  // The answer to a rotation may be lost: the receiver still has the first secret, which a repeat must not drop.
  const repeated = await post(path(webhookId, 'rotate-secret'), { overlap: '1d' })
  expect([repeated.status, repeated.body.error]).toStrictEqual([
    409,
    `The secret was rotated, and the one before it signs until ${new Date(until ?? 0).toISOString()}. PUT the secret that receivers have, and rotate again`,
  ])
  const kept = await endpoint(webhookId)
  expect([kept.secret_box, kept.previous_secret_box]).toStrictEqual([box, previous])
  const again = await post(path(webhookId, 'rotate-secret'), {})
  expect(again.body.data).toMatchObject({ previous_secret_expires_at: null, secret: expect.any(String) })
  expect((await post(path(webhookId, 'rotate-secret'), { overlap: '91d' })).status).toBe(400)
})

describe('deliveries', () => {
  const deliveries = async (webhookId: string, more = '') =>
    (await query.request(`${path(webhookId, 'deliveries')}${more}`)).body.data

  const set = (deliveryId: string, values: object) =>
    query.postgres.db.updateTable('deliveries').set(values).where('delivery_id', '=', deliveryId).execute()

  test('a test of a webhook that is deleted at that moment is 404', async () => {
    const webhookId = await addWebhook(query.postgres)
    let answer: ReturnType<typeof post> | undefined
    await query.postgres.db.transaction().execute(async (deletion) => {
      await deletion.deleteFrom('endpoints').where('endpoint_id', '=', webhookId).execute()
      answer = post(path(webhookId, 'test'))
      await lockAwaited(query.postgres)
    })
    expect(await answer).toMatchObject({ status: 404, body: { error: 'Webhook not found' } })
  })

  test('a test is delivered to a webhook that is off and does not take it', async () => {
    const { webhook_id: webhookId } = await create({ active: false })
    const { status, body } = await post(path(webhookId, 'test'))
    const { delivery_id: deliveryId } = body.data as { delivery_id: string }
    expect(status).toBe(202)
    const listed = {
      delivery_id: deliveryId,
      event_type: 'webhook.test',
      status: 'pending',
      created_at: expect.any(Number),
      next_attempt_at: expect.any(Number),
      attempts: [],
    }
    expect(await deliveries(webhookId)).toStrictEqual({ deliveries: [listed], total: 1, limit: 50, offset: 0 })
    const { data } = (await query.request(path(webhookId, 'deliveries', deliveryId))).body
    checkDelivery((data as DeliveryWithPayload).payload)
    expect(data).toStrictEqual({
      ...listed,
      payload: {
        event_type: 'webhook.test',
        timestamp: expect.any(Number),
        site_id: 'shop',
        data: { webhook_id: webhookId, message: expect.any(String) },
      },
    })
  })

  test('are listed newest first, by status, with the beginning of each response', async () => {
    const webhookId = await addWebhook(query.postgres)
    const ids = [1, 2, 3].map((at) => addDelivery(query.postgres, webhookId, at))
    const [first = '', second = '', third = ''] = await Promise.all(ids)
    await set(second, { status: 'succeeded', due_at: null })
    const attempt = { delivery_id: first, n: 1, at: new Date(5), status: 500, latency_ms: 7, error: 'HTTP 500' }
    const response = 'x'.repeat(4_096)
    await query.postgres.db
      .insertInto('attempts')
      .values({ ...attempt, response })
      .execute()
    const listed = (await deliveries(webhookId)) as { deliveries: { delivery_id: string }[] }
    expect(listed.deliveries.map(({ delivery_id }) => delivery_id)).toStrictEqual([third, second, first])
    const shown = { at: 5, status: 500, latency_ms: 7, error: 'HTTP 500' }
    expect(listed.deliveries[2]).toMatchObject({ attempts: [{ ...shown, response: 'x'.repeat(200) }] })
    const one = await query.request(path(webhookId, 'deliveries', first))
    expect(one.body.data).toMatchObject({ attempts: [{ ...shown, response }] })
    expect(await deliveries(webhookId, '?status=succeeded&limit=1')).toMatchObject({
      deliveries: [{ delivery_id: second, next_attempt_at: null }],
      total: 1,
      limit: 1,
    })
    expect(await deliveries(webhookId, '?status=')).toStrictEqual(await deliveries(webhookId))
    expect((await query.request(`${path(webhookId, 'deliveries')}?status=done`)).status).toBe(400)
  })

  test('replay sends one again whatever its status; one of another webhook is unknown', async () => {
    const [webhookId, other] = [await addWebhook(query.postgres), await addWebhook(query.postgres)]
    const deliveryId = await addDelivery(query.postgres, webhookId)
    await set(deliveryId, { status: 'succeeded', due_at: null, tries: 3 })
    const { status, body } = await post(path(webhookId, 'deliveries', deliveryId, 'replay'))
    expect([status, body.data]).toStrictEqual([202, { delivery_id: deliveryId }])
    const row = await query.postgres.db.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow()
    expect(row).toMatchObject({ status: 'pending', due_at: expect.any(Date), tries: 0 })
    for (const [method, of] of [
      ['POST', '/replay'],
      ['GET', ''],
    ] as const) {
      const wrong = await query.request(`${path(other, 'deliveries', deliveryId)}${of}`, { method })
      expect([wrong.status, wrong.body.error]).toStrictEqual([404, 'Delivery not found'])
    }
  })

  test('recover sends again what has not succeeded since then', async () => {
    const webhookId = await addWebhook(query.postgres)
    const [old = '', failed = '', done = ''] = await Promise.all(
      [1_000, 2_000, 3_000].map((at) => addDelivery(query.postgres, webhookId, at)),
    )
    for (const id of [old, failed]) await set(id, { status: 'failed', due_at: null })
    await set(done, { status: 'succeeded', due_at: null })
    const { status, body } = await post(path(webhookId, 'recover'), { since: 2_000 })
    expect([status, body.data]).toStrictEqual([202, { recovered: 1 }])
    const pending = await query.postgres.db
      .selectFrom('deliveries')
      .where('status', '=', 'pending')
      .selectAll()
      .execute()
    expect(pending.map(({ delivery_id }) => delivery_id)).toStrictEqual([failed])
    expect((await post(path(webhookId, 'recover'), {})).body.error).toBe('Missing required field: since')
    const inMicroseconds = await post(path(webhookId, 'recover'), { since: 1_700_000_000_000_000 })
    expect([inMicroseconds.status, inMicroseconds.body.data]).toStrictEqual([202, { recovered: 0 }])
  })
})

describe.each([
  ['test', 202],
  ['rotate-secret', 200],
  ['replay', 202],
])('the body of %s may be left out', (operation, expected) => {
  const target = async (): Promise<string> => {
    const webhookId = await addWebhook(query.postgres)
    if (operation !== 'replay') return path(webhookId, operation)
    return path(webhookId, 'deliveries', await addDelivery(query.postgres, webhookId), operation)
  }

  test.each([
    ['none', {}],
    ['an empty one', { body: '' }],
    // As `curl -d ''` sends it.
    ['an empty one of a form', { body: '', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }],
    ['an object without fields', { body: {} }],
  ])('%s', async (_, parts) => {
    const { status, body } = await query.request(await target(), { method: 'POST', ...parts })
    expect([status, body.error]).toStrictEqual([expected, undefined])
  })

  test.each([
    ['an unknown field', { body: { more: 1 } }, 400, 'Invalid field: more is not known'],
    ['a list', { body: [] }, 400, 'Invalid format: body must be a JSON object'],
    ['no JSON', { body: 'overlap=1d' }, 400, 'Invalid format: body is not valid JSON'],
    [
      'a form',
      { body: 'overlap=1d', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
      415,
      'Content-Type must be application/json',
    ],
  ])('%s is refused', async (_, parts, refused, error) => {
    const { status, body } = await query.request(await target(), { method: 'POST', ...parts })
    expect([status, body.error]).toStrictEqual([refused, error])
  })
})

test('webhooks go with their deletion and with their site; those of foreign sites and of rules are unknown', async () => {
  const [foreign, rule] = [
    await addWebhook(query.postgres, { siteId: 'blog' }),
    await addWebhook(query.postgres, { owner: 'alert_rule' }),
  ]
  for (const webhookId of [foreign, rule, 'wh_unknown']) {
    for (const method of ['GET', 'DELETE']) {
      const { status, body } = await query.request(path(webhookId), { method, key: own })
      expect([status, body.error]).toStrictEqual([404, 'Webhook not found'])
    }
  }
  const webhookId = await addWebhook(query.postgres)
  await addDelivery(query.postgres, webhookId)
  expect((await query.request(path(webhookId), { method: 'DELETE' })).status).toBe(200)
  expect((await query.request(path(webhookId))).status).toBe(404)
  await addDelivery(query.postgres, foreign)
  expect((await query.request('/api/v1/sites/blog', { method: 'DELETE' })).status).toBe(202)
  expect((await query.request(path(foreign))).status).toBe(404)
  expect(await query.postgres.db.selectFrom('deliveries').selectAll().execute()).toStrictEqual([])
})
