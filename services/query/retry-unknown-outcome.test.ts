import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { AlertResource } from '@sluice/contracts/alerts'
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
  sites: { findOrRegister: (siteId: string) => siteStore(postgres).find(siteId) },
  secrets: testSecrets,
  clock: { now: () => Date.now() },
  checkTarget: () => Promise.resolve(),
  canSendEmail: false,
}

async function send<Resource>(route: Route, body: object, params: Record<string, string> = {}): Promise<Resource> {
  const bytes = Buffer.from(JSON.stringify(body))
  const { data } = await route.handle(apiRequest({ params, body: { bytes, type: 'application/json' } }))
  return data as Resource
}

/** The secrets of all endpoints, in the order of their creation. */
async function storedSecrets(): Promise<string[]> {
  const rows = await postgres.db.selectFrom('endpoints').select('secret_box').orderBy('seq').execute()
  return rows.map((row) => (row.secret_box === null ? '' : testSecrets.open(row.secret_box)))
}

describe.each([
  ['after', true],
  ['before', false],
])('a connection that breaks %s COMMIT', (_, isCommitted) => {
  test('makes one webhook, whose secret the response has', async () => {
    const webhooks = webhookStore(postgres)
    const before = await storedSecrets()
    const create = brokenOnce((...args: Parameters<typeof webhooks.create>) => webhooks.create(...args), isCommitted)
    const route = createWebhookRoute({ ...deps, webhooks: { ...webhooks, create } })
    const { secret } = await send<NewWebhookResource>(route, webhook)
    expect(await storedSecrets()).toStrictEqual([...before, secret])
  })

  test('makes one alert rule, whose secret the response has', async () => {
    const rules = alertRuleStore(postgres)
    const before = await storedSecrets()
    const create = brokenOnce((...args: Parameters<typeof rules.create>) => rules.create(...args), isCommitted)
    const route = createAlertRoute({ ...deps, alertRules: { ...rules, create } })
    const { notification_config: config } = await send<AlertResource>(route, rule)
    expect(await storedSecrets()).toStrictEqual([...before, config.secret])
  })

  test('rotates a secret once', async () => {
    const webhooks = webhookStore(postgres)
    const made = await send<NewWebhookResource>(createWebhookRoute({ ...deps, webhooks }), webhook)
    const update = brokenOnce((...args: Parameters<typeof webhooks.update>) => webhooks.update(...args), isCommitted)
    const route = rotateWebhookSecretRoute({ ...deps, webhooks: { ...webhooks, update } })
    const { secret } = await send<NewWebhookResource>(route, { overlap: '1h' }, { webhook_id: made.webhook_id })
    expect((await storedSecrets()).at(-1)).toBe(secret)
    const { previousSealedSecret } = (await webhooks.find(made.webhook_id, null)) ?? {}
    expect(previousSealedSecret && testSecrets.open(previousSealedSecret)).toBe(made.secret)
  })
})
