import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { alertLimits } from '@sluice/contracts/alerts'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addRule } from '../../../tests/support/alert-rules.ts'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'
import { lockAwaited } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
})

afterAll(async () => {
  await query.stop()
})

const condition = { metric: 'event_count', operator: 'greater_than', threshold: 2, window: '5m' }
const good = {
  site_id: 'shop',
  name: 'Many events',
  condition,
  notification_type: 'webhook',
  notification_config: { url: 'http://127.0.0.1:9/hook', channel: '#ops' },
}

type Data = Record<string, unknown> & { rule_id: string; notification_config: Record<string, unknown> }

async function create(parts: object = {}, key = query.admin): Promise<Data> {
  const { status, body } = await query.request('/api/v1/alerts', { method: 'POST', key, body: { ...good, ...parts } })
  expect([status, body.error]).toStrictEqual([201, undefined])
  return body.data as Data
}

async function read(path: string): Promise<Data> {
  const { status, body } = await query.request(`/api/v1/alerts${path}`)
  expect([status, body.error]).toStrictEqual([200, undefined])
  return body.data as Data
}

test('a rule has its defaults, and a generated secret that only its creation shows', async () => {
  const made = await create()
  expect(made.notification_config).toStrictEqual({
    url: 'http://127.0.0.1:9/hook',
    channel: '#ops',
    secret: expect.stringMatching(/^[\w-]{32,}$/),
  })
  expect(made).toMatchObject({
    description: null,
    condition,
    for: '0s',
    cooldown: '1h',
    no_data: 'zero',
    enabled: true,
    environment: 'prod',
    state: 'ok',
    pending_since: null,
    firing_id: null,
    last_evaluated_at: null,
  })
  const { secret: _, ...config } = made.notification_config
  expect(await read(`/${made.rule_id}`)).toStrictEqual({ ...made, notification_config: config })
  const { body } = await query.request('/api/v1/alerts?site_id=shop')
  expect(body.data).toMatchObject({ alerts: [{ rule_id: made.rule_id, notification_config: config }], total: 1 })
})

test('a rule is made once for an Idempotency-Key, unless its answer holds a generated secret', async () => {
  const site_id = 'idempotent'
  const once = (parts: object) =>
    query.request('/api/v1/alerts', {
      method: 'POST',
      body: { ...good, site_id, ...parts },
      headers: { 'Idempotency-Key': 'deploy-7' },
    })
  const generated = [await once({}), await once({})]
  for (const { body } of generated) expect(body.data).toHaveProperty('notification_config.secret')

  const toSlack = { notification_type: 'slack' }
  const first = await once(toSlack)
  const repeated = await once(toSlack)
  expect(first.status).toBe(201)
  expect(repeated.body).toStrictEqual(first.body)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  expect((await once({ ...toSlack, name: 'other' })).status).toBe(409)
  expect((await query.request(`/api/v1/alerts?site_id=${site_id}`)).body.data).toMatchObject({ total: 3 })
})

test('a secret of the caller is never returned, and Postgres holds neither it nor the URL in plain text', async () => {
  const config = { url: 'https://127.0.0.1/T00/B00/token-of-slack', secret: 'the secret of the caller' }
  const made = await create({ site_id: 'sealed', notification_config: config })
  expect(made.notification_config).toStrictEqual({ url: config.url })
  const { db } = query.postgres
  const rows = [
    ...(await db.selectFrom('endpoints').selectAll().execute()),
    ...(await db.selectFrom('alert_rules').selectAll().execute()),
  ]
  const dumped = JSON.stringify(rows, (_, value: unknown) =>
    value instanceof Object && 'data' in value ? Buffer.from(value.data as number[]).toString('latin1') : value,
  )
  expect(dumped).toContain(made.rule_id)
  expect(dumped).not.toMatch(/token-of-slack|secret of the caller/)
})

test('a rule keeps the environment of the key that made it', async () => {
  const key = await query.createKey({ scopes: ['admin'], environment: 'dev' })
  const { rule_id: ruleId, environment } = await create({ site_id: 'developed' }, key)
  expect(environment).toBe('dev')
  const { body } = await query.request(`/api/v1/alerts/${ruleId}`, { method: 'PUT', body: { name: 'renamed' } })
  expect(body.data).toMatchObject({ name: 'renamed', environment: 'dev' })
})

const missing = (field: string): string => `Missing required field: ${field}`
const invalid = (field: string, reason: string): string => `Invalid field: ${field} ${reason}`
const durationReason = 'must be a whole number and a unit, m, h or d, e.g. 5m'

test('a target that was stored with another key is missing, and can be set anew', async () => {
  const made = await create({ site_id: 'unreadable' })
  const target_box = createSecretCipher(randomBytes(32).toString('hex')).encrypt('http://127.0.0.1:9/hook')
  const { db } = query.postgres
  await db.updateTable('endpoints').set({ target_box }).where('site_id', '=', 'unreadable').execute()
  const put = async (body: object) => query.request(`/api/v1/alerts/${made.rule_id}`, { method: 'PUT', body })
  const { body } = await query.request('/api/v1/alerts?site_id=unreadable')
  expect(body.data).toMatchObject({ alerts: [{ rule_id: made.rule_id }], total: 1 })
  expect(await read(`/${made.rule_id}`)).toMatchObject({ notification_config: { channel: '#ops' } })
  expect((await put({ name: 'Renamed' })).status).toBe(200)
  expect((await put({ enabled: true })).body.error).toBe('Missing required field: notification_config.url')
  expect((await put({ notification_config: { url: 'http://127.0.0.1:9/new' } })).status).toBe(200)
  const set = await read(`/${made.rule_id}`)
  expect(set.notification_config).toStrictEqual({ url: 'http://127.0.0.1:9/new', channel: '#ops' })
})

describe('bad input is a 400 that names the field', () => {
  const badConditions: [object, string][] = [
    [{ window: '0m' }, invalid('condition.window', 'must be from 1m to 30d')],
    [{ window: '31d' }, invalid('condition.window', 'must be from 1m to 30d')],
    [{ window: '1.5h' }, invalid('condition.window', durationReason)],
    [{ window: '90s' }, invalid('condition.window', durationReason)],
    [{ window: 5 }, invalid('condition.window', 'must be a string')],
    [{ window: undefined }, missing('condition.window')],
    [{ threshold: '3' }, invalid('condition.threshold', 'must be a number')],
    [{ threshold: undefined }, missing('condition.threshold')],
    [
      { operator: 'increases_by_percent', threshold: -1 },
      invalid('condition.threshold', 'must be at least 0 with increases_by_percent'),
    ],
    [
      { operator: 'decreases_by_percent', threshold: 101 },
      invalid('condition.threshold', 'must be at most 100 with decreases_by_percent'),
    ],
    [{ metric: 'revenue' }, 'Invalid field: condition.metric must be one of: event_count, '],
    [{ operator: '>' }, 'Invalid field: condition.operator must be one of: greater_than, '],
    [{ metric: 'event_count_by_type' }, missing('condition.event_type')],
    [{ filter: { property: 'url' } }, invalid('condition.filter', 'must be a list of conditions')],
    [{ filter: [{ property: 'url', operator: 'is' }] }, 'Invalid field: condition.filter.0.operator must be one of: '],
    [{ extra: 1 }, invalid('condition.extra', 'is not known')],
  ]
  test.each(badConditions)('condition %j', async (parts, error) => {
    for (const path of ['/api/v1/alerts', '/api/v1/alerts/preview']) {
      const body = { ...good, condition: { ...condition, ...parts } }
      const response = await query.request(path, { method: 'POST', body })
      expect(response.status).toBe(400)
      expect(response.body.error?.slice(0, error.length)).toBe(error)
    }
  })

  test('a threshold that is not finite, or that a number can not hold exactly', async () => {
    const body = JSON.stringify({ ...good, condition: { ...condition, threshold: 0 } })
    const range = 'must be from -9007199254740991 to 9007199254740991'
    for (const [number, reason] of [
      ['1e999', 'must be a finite number'],
      ['-1e999', 'must be a finite number'],
      ['1e308', range],
      ['-1e308', range],
    ] as const) {
      const sent = body.replace('"threshold":0', `"threshold":${number}`)
      const response = await query.request('/api/v1/alerts', { method: 'POST', body: sent })
      expect(response).toMatchObject({
        status: 400,
        body: { error: invalid('condition.threshold', reason) },
      })
    }
  })

  const badBodies: [object, string][] = [
    [{ notification_type: 'sms' }, invalid('notification_type', 'must be one of: webhook, slack, email')],
    [{ notification_type: 'slack', notification_config: {} }, missing('notification_config.url')],
    [{ notification_config: {} }, missing('notification_config.url')],
    [{ notification_type: 'email', notification_config: {} }, missing('notification_config.to')],
    [
      { notification_type: 'email', notification_config: { to: ['a@example.com'] } },
      invalid('notification_type', 'email needs SLUICE_SMTP_URL, which is not set on this server'),
    ],
    [
      { notification_type: 'email', notification_config: { to: ['nobody'] } },
      invalid('notification_config.to.0', 'must be an e-mail address'),
    ],
    [
      { notification_type: 'email', notification_config: { to: ['a@example.com'], url: 'https://example.com' } },
      invalid('notification_config.url', 'does not go with notification_type email'),
    ],
    [
      { notification_type: 'slack', notification_config: { url: 'http://127.0.0.1/', secret: 's' } },
      invalid('notification_config.secret', 'does not go with notification_type slack'),
    ],
    [
      { notification_config: { url: 'ftp://127.0.0.1/' } },
      invalid('notification_config.url', 'must begin with https:// or http://'),
    ],
    [
      { notification_config: { url: 'http://10.0.0.1/' } },
      invalid(
        'notification_config.url',
        'names the address 10.0.0.1, which is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
      ),
    ],
    [
      { notification_config: { url: 'http://127.0.0.1/', secret: 'x'.repeat(257) } },
      invalid('notification_config.secret', 'exceeds maximum length of 256'),
    ],
    [
      { notification_config: { url: 'http://127.0.0.1/', secret: '' } },
      invalid('notification_config.secret', 'must not be empty'),
    ],
    [
      { notification_type: 'email', notification_config: { to: ['a@example.com\0'] } },
      invalid('notification_config.to.0', 'must not contain NUL characters'),
    ],
    [
      { notification_type: 'email', notification_config: { to: Array(21).fill('a@example.com') } },
      invalid('notification_config.to', 'must contain at most 20 items'),
    ],
    [
      { notification_config: { url: 'http://127.0.0.1/', channel: 'x'.repeat(129) } },
      invalid('notification_config.channel', 'exceeds maximum length of 128'),
    ],
    [{ condition: null }, missing('condition')],
    [{ condition: { ...condition, threshold: null } }, missing('condition.threshold')],
    [{ notification_type: null }, missing('notification_type')],
    [{ for: '8d' }, invalid('for', 'must be from 0s to 7d')],
    [{ cooldown: '31d' }, invalid('cooldown', 'must be from 0s to 30d')],
    [{ cooldown: '1w' }, invalid('cooldown', 'must be a whole number and a unit, s, m, h or d, e.g. 1h')],
    [{ no_data: 'ok' }, invalid('no_data', 'must be one of: zero, keep, alert')],
    [{ name: ' ' }, invalid('name', 'must not be blank')],
    [{ name: 'x'.repeat(129) }, invalid('name', 'exceeds maximum length of 128')],
    [{ description: 'x'.repeat(1_025) }, invalid('description', 'exceeds maximum length of 1024')],
  ]
  test.each(badBodies)('%j', async (parts, error) => {
    const response = await query.request('/api/v1/alerts', { method: 'POST', body: { ...good, ...parts } })
    expect([response.status, response.body.error]).toStrictEqual([400, error])
  })
})

test('PUT keeps what is left out, within the condition and the configuration too', async () => {
  const { rule_id: ruleId } = await create({
    site_id: 'put',
    description: 'for those who read it',
    condition: { ...condition, event_type: 'purchase' },
    notification_config: { url: 'http://127.0.0.1:9/hook', secret: 'kept' },
  })
  const put = async (body: object) => query.request(`/api/v1/alerts/${ruleId}`, { method: 'PUT', body })
  expect(
    (await put({ condition: { threshold: 9 }, notification_config: { channel: '#night' }, description: null })).body
      .data,
  ).toMatchObject({
    description: null,
    condition: { ...condition, threshold: 9, event_type: 'purchase' },
    notification_config: { url: 'http://127.0.0.1:9/hook', channel: '#night' },
  })
  const before = (await query.request(`/api/v1/alerts/${ruleId}`)).body.data
  for (const body of [{}, { condition: { threshold: 9 } }, { name: good.name }]) {
    expect((await put(body)).body.data).toStrictEqual(before)
  }
  expect((await put({ notification_config: { channel: null } })).body.data).toMatchObject({
    notification_config: { url: 'http://127.0.0.1:9/hook' },
  })
  expect((await put({ notification_config: { channel: '' } })).body.data).not.toHaveProperty(
    'notification_config.channel',
  )
  expect((await put({ notification_config: { url: null } })).body.error).toBe(
    invalid('notification_config.url', 'must be a string'),
  )
  expect((await put({ condition: { event_type: null } })).body.data).toMatchObject({
    condition: { ...condition, threshold: 9 },
  })
  const changed = await put({ notification_type: 'slack', notification_config: { url: 'http://127.0.0.1/slack' } })
  expect(changed.body.data).toMatchObject({ notification_config: { url: 'http://127.0.0.1/slack' } })
  expect((await put({ notification_type: 'webhook' })).body.error).toBe(missing('notification_config.url'))
  expect((await put({ site_id: 'other' })).body.error).toBe(invalid('site_id', "can't be changed"))
  expect((await put({ condition: { metric: 'event_count_by_type' } })).body.error).toBe(missing('condition.event_type'))
})

test('a test is queued for the rule, and stands in its history until it is sent', async () => {
  const { rule_id: ruleId } = await create({ site_id: 'tested' })
  const { status, body } = await query.request(`/api/v1/alerts/${ruleId}/test`, { method: 'POST' })
  expect([status, body.data]).toStrictEqual([202, { rule_id: ruleId, notification_type: 'webhook' }])
  const unknown = await query.request(`/api/v1/alerts/${ruleId}/test`, { method: 'POST', body: { value: 1 } })
  expect([unknown.status, unknown.body.error]).toStrictEqual([400, invalid('value', 'is not known')])
  const history = await read(`/${ruleId}/history`)
  expect(history).toMatchObject({
    history: [{ from: 'ok', to: 'ok', test: true, notification: { status: 'pending', attempts: 0 } }],
    total: 1,
  })
  const { db } = query.postgres
  const [delivery] = await db.selectFrom('deliveries').selectAll().where('endpoint_id', '=', ruleId).execute()
  expect(JSON.parse(delivery?.body.toString() ?? '')).toMatchObject({ data: { alert_id: ruleId, test: true } })
})

test('a test of a rule that is deleted at that moment is 404', async () => {
  const { rule_id: ruleId } = await create({ site_id: 'tested' })
  let answer: ReturnType<TestQuery['request']> | undefined
  await query.postgres.db.transaction().execute(async (deletion) => {
    await deletion.deleteFrom('endpoints').where('endpoint_id', '=', ruleId).execute()
    answer = query.request(`/api/v1/alerts/${ruleId}/test`, { method: 'POST' })
    await lockAwaited(query.postgres)
  })
  expect(await answer).toMatchObject({ status: 404, body: { error: 'Alert rule not found' } })
})

test('the eleventh test of e-mail rules of a site within an hour is 429, and a webhook rule can still be tested', async () => {
  const { postgres } = query
  const rule = await addRule(postgres, { siteId: 'mailed', type: 'email', target: '["ops@example.com"]' })
  const { rule_id: hook } = await create({ site_id: 'mailed' })
  const firstAt = Date.now() - 30 * 60_000
  for (let second = 0; second < 10; second += 1) {
    await alertRuleStore(postgres).queueTest(rule, firstAt + second * 1_000)
  }
  const msUntilNext = () => firstAt + 60 * 60_000 - Date.now()
  const msBefore = msUntilNext()
  const { status, body, headers } = await query.request(`/api/v1/alerts/${rule.ruleId}/test`, { method: 'POST' })
  const retryAfter = Number(headers.get('retry-after'))
  expect([status, body.error]).toStrictEqual([429, `Rate limit exceeded. Retry after ${retryAfter} seconds.`])
  expect((retryAfter - 1) * 1_000).toBeLessThan(msBefore)
  expect(retryAfter * 1_000).toBeGreaterThanOrEqual(msUntilNext())
  expect((await query.request(`/api/v1/alerts/${hook}/test`, { method: 'POST' })).status).toBe(202)
})

test('a deleted rule is gone with its history and its site’s turn, and so are the rules of a deleted site', async () => {
  const { rule_id: ruleId } = await create({ site_id: 'gone' })
  await query.request(`/api/v1/alerts/${ruleId}/test`, { method: 'POST' })
  expect((await query.request(`/api/v1/alerts/${ruleId}`, { method: 'DELETE' })).status).toBe(200)
  expect((await query.request(`/api/v1/alerts/${ruleId}`)).body.error).toBe('Alert rule not found')
  await create({ site_id: 'gone too' })
  expect((await query.request('/api/v1/sites/gone%20too', { method: 'DELETE' })).status).toBe(202)
  const { db } = query.postgres
  const left = await Promise.all(
    (['alert_rules', 'alert_sites'] as const).map((table) =>
      db.selectFrom(table).select('site_id').where('site_id', 'like', 'gone%').execute(),
    ),
  )
  expect(left).toStrictEqual([[], []])
  expect(await db.selectFrom('alert_history').select('value').where('rule_id', '=', ruleId).execute()).toStrictEqual([])
})

test('a site has at most so many rules', async () => {
  await create({ site_id: 'full' })
  const { db } = query.postgres
  const endpoint = await db.selectFrom('endpoints').selectAll().where('site_id', '=', 'full').executeTakeFirstOrThrow()
  const rule = await db.selectFrom('alert_rules').selectAll().where('site_id', '=', 'full').executeTakeFirstOrThrow()
  const ids = Array.from({ length: alertLimits.rulesPerSiteMax - 1 }, (_, index) => `alr_full_${index}`)
  const { seq: _, ...endpointColumns } = endpoint
  const { seq: __, condition: stored, ...ruleColumns } = rule
  await db
    .insertInto('endpoints')
    .values(ids.map((id) => ({ ...endpointColumns, endpoint_id: id })))
    .execute()
  await db
    .insertInto('alert_rules')
    .values(ids.map((id) => ({ ...ruleColumns, rule_id: id, condition: JSON.stringify(stored) })))
    .execute()
  const { status, body } = await query.request('/api/v1/alerts', { method: 'POST', body: { ...good, site_id: 'full' } })
  expect([status, body.error]).toStrictEqual([409, 'Site has 100 alert rules, the maximum: delete one first'])
})

describe('preview', () => {
  const minuteMs = 60_000
  const now = Math.floor(Date.now() / minuteMs) * minuteMs

  test('tells how often the rule would have fired, when, and what was measured', async () => {
    const burst = (minutesAgo: number, count: number): number[] =>
      Array.from({ length: count }, (_, index) => now - minutesAgo * minuteMs + index)
    await storeEvents(query, 'previewed', [...burst(3_000, 5), ...burst(2_990, 5), ...burst(100, 3), ...burst(50, 2)])
    await create({ site_id: 'previewed' })
    // The query service learns of the watermark by polling.
    await watermarkStore(query.postgres).advance('log', [Date.now()])
    const body = { site_id: 'previewed', condition, cooldown: '1h' }
    const preview = async (parts: object = {}) =>
      query.request('/api/v1/alerts/preview', { method: 'POST', body: { ...body, ...parts } })
    await waitUntil(async () => {
      const { complete_until: until } = (await preview()).body.data as { complete_until: number }
      return until > 0
    }, 'the watermark is known')
    const { status, body: answer } = await preview()
    expect([status, answer.error]).toStrictEqual([200, undefined])
    const at = (minutesAgo: number): number => now - minutesAgo * minuteMs
    expect(answer.data).toMatchObject({
      times_fired: 2,
      step_ms: minuteMs,
      firings: [
        { from: at(2_999), to: at(2_994), value: 5 },
        { from: at(99), to: at(94), value: 3 },
      ],
    })
    const { series } = answer.data as { series: { timestamp: number; value: number }[] }
    expect(series.length).toBeLessThanOrEqual(alertLimits.previewPointsMax)
    expect(series.some(({ value }) => value === 5)).toBe(true)
    expect((await preview({ cooldown: '0s' })).body.data).toMatchObject({ times_fired: 3 })
    const sessions = { ...condition, metric: 'unique_sessions', window: '1d', operator: 'less_than_or_equal' }
    expect((await preview({ condition: sessions })).body.data).toMatchObject({
      times_fired: 1,
      step_ms: 120 * minuteMs,
    })
  })

  test('of an unknown site is 404', async () => {
    const body = { site_id: 'unknown', condition }
    expect((await query.request('/api/v1/alerts/preview', { method: 'POST', body })).body.error).toBe('Site not found')
  })
})
