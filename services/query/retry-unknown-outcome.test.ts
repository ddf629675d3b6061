import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { AlertResource } from '@sluice/contracts/alerts'
import type { NewWebhookResource } from '@sluice/contracts/webhooks'
import { type EventReader, openEventReader } from '@sluice/event-store/event-reader'
import type { Route } from '@sluice/http/route'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { cohortStore } from '@sluice/postgres/cohorts'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { webhookStore } from '@sluice/postgres/webhooks'
import { unavailable } from '@sluice/runtime/errors'
import { apiRequest } from '../../tests/support/api-request.ts'
import { startQuery, type TestQuery } from '../../tests/support/query.ts'
import type { TestPostgres } from '../../tests/support/test-postgres.ts'
import { testSecrets } from '../../tests/support/webhooks.ts'
import { createAlertRoute } from './alerts/create-alert.ts'
import { testAlertRoute } from './alerts/test-alert.ts'
import { updateAlertRoute } from './alerts/update-alert.ts'
import { createCohortRoute } from './cohorts/create-cohort.ts'
import { createExportRoute } from './exports/create-export.ts'
import { createErasureRoute } from './sites/create-erasure.ts'
import { createSiteRoute } from './sites/create-site.ts'
import { deleteSiteRoute } from './sites/delete-site.ts'
import { createWebhookRoute } from './webhooks/create-webhook.ts'
import { rotateWebhookSecretRoute } from './webhooks/rotate-webhook-secret.ts'
import { testWebhookRoute } from './webhooks/test-webhook.ts'

let query: TestQuery
let postgres: TestPostgres
let eventReader: EventReader

beforeAll(async () => {
  query = await startQuery()
  ;({ postgres } = query)
  await query.clickHouse.create()
  eventReader = openEventReader(query.clickHouse.readerUrl)
  await siteStore(postgres).register(['shop'])
})

afterAll(async () => {
  await eventReader.close()
  await query.stop()
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

const find = (siteId: string) => siteStore(postgres).find(siteId)
/** No two calls return the same time. */
const clock = { time: Date.now(), now: () => (clock.time += 1) }
const deps = {
  sites: { find, findOrRegister: find },
  secrets: testSecrets,
  clock,
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
  return rows.map((row) => (row.secret_box === null ? '' : testSecrets.decrypt(row.secret_box)))
}

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id).sort()
const cohortIds = async () => idsOf(await postgres.db.selectFrom('cohorts').select('cohort_id as id').execute())
const exportIds = async () => idsOf(await postgres.db.selectFrom('exports').select('export_id as id').execute())
const scheduleIds = async () =>
  idsOf(await postgres.db.selectFrom('export_schedules').select('schedule_id as id').execute())

const storedErasures = (siteId: string) =>
  postgres.db.selectFrom('erasures').select(['erasure_id', 'requested_at']).where('site_id', '=', siteId).execute()

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
    const { previousEncryptedSecret } = (await webhooks.find(made.webhook_id, null)) ?? {}
    expect(previousEncryptedSecret && testSecrets.decrypt(previousEncryptedSecret)).toBe(made.secret)
  })

  test('gives an alert rule that becomes a webhook one secret, which the response has', async () => {
    const rules = alertRuleStore(postgres)
    const slack = { ...rule, notification_type: 'slack' }
    const made = await send<AlertResource>(createAlertRoute({ ...deps, alertRules: rules }), slack)
    const update = brokenOnce((...args: Parameters<typeof rules.update>) => rules.update(...args), isCommitted)
    const route = updateAlertRoute({ ...deps, alertRules: { ...rules, update } })
    const change = { notification_type: 'webhook', notification_config: rule.notification_config }
    const changed = await send<AlertResource>(route, change, { rule_id: made.rule_id })
    expect(changed.notification_config.secret).toMatch(/./)
    expect((await storedSecrets()).at(-1)).toBe(changed.notification_config.secret)
    expect(await rules.find(made.rule_id, null)).toMatchObject({ revision: 1 })
  })

  test('changes an alert rule once', async () => {
    const rules = alertRuleStore(postgres)
    const made = await send<AlertResource>(createAlertRoute({ ...deps, alertRules: rules }), rule)
    const update = brokenOnce((...args: Parameters<typeof rules.update>) => rules.update(...args), isCommitted)
    const route = updateAlertRoute({ ...deps, alertRules: { ...rules, update } })
    const changes = { name: 'Renamed', condition: { threshold: 5 } }
    expect(await send<AlertResource>(route, changes, { rule_id: made.rule_id })).toMatchObject(changes)
    expect(await rules.find(made.rule_id, null)).toMatchObject({ revision: 1 })
  })

  test('makes one cohort', async () => {
    const cohorts = cohortStore(postgres)
    const before = await cohortIds()
    const create = brokenOnce((...args: Parameters<typeof cohorts.create>) => cohorts.create(...args), isCommitted)
    const criteria = { type: 'and', conditions: [{ property: 'user_id', operator: 'exists' }] }
    const route = createCohortRoute({ ...deps, cohorts: { create } })
    const { cohort_id: id } = await send<{ cohort_id: string }>(route, { site_id: 'shop', name: 'all', criteria })
    expect(await cohortIds()).toStrictEqual([...before, id])
  })

  test.each<[string, object, string[]]>([
    ['export', {}, []],
    ['schedule of exports', { scheduled: { frequency: 'daily' } }, ['created']],
  ])('makes one %s', async (_kind, parts, schedules) => {
    const exports = exportStore(postgres)
    const before = await exportIds()
    const schedulesBefore = await scheduleIds()
    const create = brokenOnce((...args: Parameters<typeof exports.create>) => exports.create(...args), isCommitted)
    const route = createExportRoute({ ...deps, cohorts: cohortStore(postgres), exports: { create } })
    const body = { site_id: 'shop', type: 'events', format: 'csv', ...parts }
    const { export_id: id } = await send<{ export_id: string }>(route, body)
    expect(await exportIds()).toStrictEqual([...before, id])
    const created = schedules.map(() => id)
    expect(await scheduleIds()).toStrictEqual([...schedulesBefore, ...created])
  })

  test('makes one erasure, of what was received until the request', async () => {
    const siteId = `erased-${String(isCommitted)}`
    await siteStore(postgres).register([siteId])
    const erasures = erasureStore(postgres)
    const create = brokenOnce((...args: Parameters<typeof erasures.create>) => erasures.create(...args), isCommitted)
    const route = createErasureRoute({ ...deps, erasures: { create }, eventReader })
    const requestedAt = new Date(clock.time + 1)
    const { erasure_id: id } = await send<{ erasure_id: string }>(route, { user_id: 'ada' }, { site_id: siteId })
    expect(await storedErasures(siteId)).toStrictEqual([{ erasure_id: id, requested_at: requestedAt }])
  })

  test('registers a site, and does not refuse it as registered already', async () => {
    const siteId = `created-${String(isCommitted)}`
    const sites = siteStore(postgres)
    const create = brokenOnce((...args: Parameters<typeof sites.create>) => sites.create(...args), isCommitted)
    const route = createSiteRoute({ siteStore: { ...sites, create }, eventReader })
    const body = { site_id: siteId, timezone: 'europe/berlin', retention_days: 30 }
    expect(await send(route, body)).toMatchObject({ site_id: siteId, timezone: 'Europe/Berlin', retention_days: 30 })
    await expect(send(createSiteRoute({ siteStore: sites, eventReader }), body)).rejects.toMatchObject({
      code: 'conflict',
    })
  })

  test('deletes a site, and tells the id of its erasure', async () => {
    const siteId = `deleted-${String(isCommitted)}`
    await siteStore(postgres).register([siteId])
    const erasures = erasureStore(postgres)
    const createForSite = brokenOnce(
      (...args: Parameters<typeof erasures.createForSite>) => erasures.createForSite(...args),
      isCommitted,
    )
    const route = deleteSiteRoute({ ...deps, erasures: { createForSite }, blobs: query.blobs })
    const { erasure_id: id } = await send<{ erasure_id: string }>(route, {}, { site_id: siteId })
    expect(await storedErasures(siteId)).toMatchObject([{ erasure_id: id }])
  })

  test('queues one test delivery of a webhook', async () => {
    const webhooks = webhookStore(postgres)
    const made = await send<NewWebhookResource>(createWebhookRoute({ ...deps, webhooks }), webhook)
    const queueRequested = brokenOnce(
      (...args: Parameters<typeof webhooks.queueRequested>) => webhooks.queueRequested(...args),
      isCommitted,
    )
    const route = testWebhookRoute({ ...deps, webhooks: { ...webhooks, queueRequested } })
    const { delivery_id: id } = await send<{ delivery_id: string }>(route, {}, { webhook_id: made.webhook_id })
    const { deliveries } = await webhooks.listDeliveries(made.webhook_id, undefined, { limit: 10, offset: 0 })
    expect(deliveries).toMatchObject([{ deliveryId: id, kind: 'webhook.test' }])
  })

  test('queues one test notification of an alert rule', async () => {
    const rules = alertRuleStore(postgres)
    const { rule_id: ruleId } = await send<AlertResource>(createAlertRoute({ ...deps, alertRules: rules }), rule)
    const queueTest = brokenOnce((...args: Parameters<typeof rules.queueTest>) => rules.queueTest(...args), isCommitted)
    const route = testAlertRoute({ ...deps, alertRules: { ...rules, queueTest } })
    await send(route, {}, { rule_id: ruleId })
    expect(await rules.history(ruleId, { limit: 10, offset: 0 }, clock.now())).toMatchObject({ total: 1 })
  })
})

test('a site that somebody else has registered, or with other settings, is refused after a broken connection', async () => {
  const sites = siteStore(postgres)
  const body = { site_id: 'taken', timezone: 'Europe/Berlin' }
  const createBroken = () => {
    const create = brokenOnce((...args: Parameters<typeof sites.create>) => sites.create(...args), false)
    return send(createSiteRoute({ siteStore: { ...sites, create }, eventReader }), body)
  }
  for (const [keyId, settings] of [
    ['key_other', { timezone: 'Europe/Berlin' }],
    ['key_test', { timezone: 'UTC' }],
    ['key_test', { timezone: 'Europe/Berlin', name: 'Taken' }],
  ] as const) {
    await postgres.db.deleteFrom('sites').where('site_id', '=', 'taken').execute()
    await sites.create('taken', settings, keyId)
    await expect(createBroken()).rejects.toMatchObject({ code: 'conflict' })
  }
})

test('a site that events have registered again is not deleted again by the repeated deletion', async () => {
  const sites = siteStore(postgres)
  await sites.register(['revived'])
  const erasures = erasureStore(postgres)
  const erasure = { erasureId: 'era_revived', siteId: 'revived', kind: 'site', hashes: null, before: null } as const
  const deletion = { ...erasure, keyId: 'key_test' }
  const first = await erasures.createForSite(deletion, () => clock.now())
  await sites.register(['revived'])
  const again = await erasures.createForSite(deletion, () => clock.now() + 1)
  expect(again?.erasure).toStrictEqual(first?.erasure)
  expect(await sites.find('revived')).toBeDefined()
})
