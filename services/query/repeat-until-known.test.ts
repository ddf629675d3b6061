import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { NewWebhookResource } from '@sluice/contracts/webhooks'
import type { Route } from '@sluice/http/route'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { siteStore } from '@sluice/postgres/sites'
import { webhookStore } from '@sluice/postgres/webhooks'
import { unavailable } from '@sluice/runtime/errors'
import { apiRequest } from '../../tests/support/api-request.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { testSecrets } from '../../tests/support/webhooks.ts'
import { createAlertRoute } from './alerts/create-alert.ts'
import { createWebhookRoute } from './webhooks/create-webhook.ts'
import { rotateWebhookSecretRoute } from './webhooks/rotate-webhook-secret.ts'

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
  await siteStore(postgres).register(['shop'])
})

afterAll(async () => {
  await postgres.drop()
})

const webhook = { site_id: 'shop', url: 'http://127.0.0.1:9/hook', events: ['alert'] }
const rule = {
  site_id: 'shop',
  name: 'Many events',
  condition: { metric: 'event_count', operator: 'greater_than', threshold: 2, window: '5m' },
  notification_type: 'webhook',
  notification_config: { url: 'http://127.0.0.1:9/hook' },
}

/** The first call fails because the connection breaks, before or after Postgres has committed. */
function brokenOnce<Arguments extends unknown[], Result>(
  call: (...args: Arguments) => Promise<Result>,
  isCommitted: boolean,
): (...args: Arguments) => Promise<Result> {
  let isFirst = true
  return async (...args) => {
    const breaks = isFirst
    isFirst = false
    if (breaks && !isCommitted) throw unavailable('the connection broke before COMMIT')
    const result = await call(...args)
    if (breaks) throw unavailable('the connection broke after COMMIT')
    return result
  }
}

const deps = {
  sites: { findOrRegister: () => Promise.resolve(true) },
  secrets: testSecrets,
  clock: { now: () => Date.now() },
  checkTarget: () => Promise.resolve(),
  canSendEmail: false,
} as never as Omit<Parameters<typeof createAlertRoute>[0], 'alertRules'>

async function send(route: Route, body: object, params: Record<string, string> = {}): Promise<NewWebhookResource> {
  const bytes = Buffer.from(JSON.stringify(body))
  const { data } = await route.handle(apiRequest({ params, body: { bytes, type: 'application/json' } }))
  return data as NewWebhookResource
}

/** The secrets of all endpoints, in the order of their creation. */
async function storedSecrets(): Promise<string[]> {
  const rows = await postgres.db.selectFrom('endpoints').select('secret_box').orderBy('seq').execute()
  return rows.map((row) => (row.secret_box === null ? '' : testSecrets.open(row.secret_box)))
}

test.each([
  ['after', true],
  ['before', false],
])('a connection that breaks %s COMMIT makes one webhook, whose secret the response has', async (_, isCommitted) => {
  const webhooks = webhookStore(postgres)
  const before = await storedSecrets()
  const create = brokenOnce((...args: Parameters<typeof webhooks.create>) => webhooks.create(...args), isCommitted)
  const { secret } = await send(createWebhookRoute({ ...deps, webhooks: { ...webhooks, create } }), webhook)
  expect(await storedSecrets()).toStrictEqual([...before, secret])
})

test.each([
  ['after', true],
  ['before', false],
])('a connection that breaks %s COMMIT makes one alert rule, whose secret the response has', async (_, isCommitted) => {
  const alertRules = alertRuleStore(postgres)
  const before = await storedSecrets()
  const create = brokenOnce((...args: Parameters<typeof alertRules.create>) => alertRules.create(...args), isCommitted)
  const made = await send(createAlertRoute({ ...deps, alertRules: { ...alertRules, create } }), rule)
  const { secret } = (made as unknown as { notification_config: { secret: string } }).notification_config
  expect(await storedSecrets()).toStrictEqual([...before, secret])
})

test.each([
  ['after', true],
  ['before', false],
])('a connection that breaks %s COMMIT rotates a secret once', async (_, isCommitted) => {
  const webhooks = webhookStore(postgres)
  const { webhook_id, secret: former = '' } = await send(createWebhookRoute({ ...deps, webhooks }), webhook)
  const update = brokenOnce((...args: Parameters<typeof webhooks.update>) => webhooks.update(...args), isCommitted)
  const route = rotateWebhookSecretRoute({ ...deps, webhooks: { ...webhooks, update } })
  const { secret } = await send(route, { overlap: '1h' }, { webhook_id })
  expect((await storedSecrets()).at(-1)).toBe(secret)
  const { previousSecretBox } = (await webhooks.find(webhook_id, null)) ?? {}
  expect(previousSecretBox && testSecrets.open(previousSecretBox)).toBe(former)
})
