import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { Measured } from '@sluice/contracts/alert-state'
import { newId } from '@sluice/runtime/ids'
import { addRule, type RuleParts } from '../../tests/support/alert-rules.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addWebhook, testSecrets } from '../../tests/support/webhooks.ts'
import type { AlertRule } from './alert-records.ts'
import { type AlertRuleStore, alertRuleStore } from './alert-rules.ts'
import { encryptTarget, updateEndpoint } from './endpoints.ts'
import { erasureStore } from './erasures.ts'
import { siteStore } from './sites.ts'

const minuteMs = 60_000
const noon = Date.UTC(2026, 0, 2, 12)

let postgres: TestPostgres
let rules: AlertRuleStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  rules = alertRuleStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

const value = (number: number): Measured => ({ outcome: 'value', value: number, previous: 0 })

let sites = 0

/** A rule on a new site, created at noon. It fires above 10. */
async function ruleWith(parts: RuleParts = {}): Promise<AlertRule> {
  sites += 1
  return addRule(postgres, { siteId: `site-${sites}`, at: noon, ...parts })
}

async function evaluate({ ruleId, revision }: AlertRule, minutes: number, measured: Measured): Promise<string[]> {
  const minute = noon + minutes * minuteMs
  const evaluated = await rules.step(minute, [{ ruleId, revision, measured }], minute + 2_000)
  return evaluated.map(({ transition }) => transition?.to ?? 'none')
}

async function deliveriesOf(
  siteId: string,
): Promise<{ endpoint: string; timestamp: number; data: Record<string, unknown> }[]> {
  const rows = await postgres.db
    .selectFrom('deliveries')
    .innerJoin('endpoints', 'endpoints.endpoint_id', 'deliveries.endpoint_id')
    .where('endpoints.site_id', '=', siteId)
    .orderBy('deliveries.created_at')
    .orderBy('deliveries.endpoint_id')
    .select(['deliveries.endpoint_id', 'deliveries.body'])
    .execute()
  return rows.map(({ endpoint_id, body }) => ({
    endpoint: endpoint_id,
    ...(JSON.parse(body.toString()) as { timestamp: number; data: Record<string, unknown> }),
  }))
}

test('a firing and its resolution are stored with their deliveries, which have one firing_id', async () => {
  const rule = await ruleWith({ channel: '#ops' })
  expect(await evaluate(rule, 1, value(12))).toStrictEqual(['firing'])
  const fired = await rules.find(rule.ruleId, null)
  expect(fired).toMatchObject({
    state: { state: 'firing', lastFiredAt: noon + minuteMs, lastValue: 12 },
    evaluatedMinute: noon + minuteMs,
    lastEvaluatedAt: noon + minuteMs + 2_000,
  })
  expect(await evaluate(rule, 2, value(3))).toStrictEqual(['resolved'])
  expect(await rules.find(rule.ruleId, null)).toMatchObject({ state: { state: 'ok' }, firingId: null })
  const told = await deliveriesOf(rule.siteId)
  expect(told.map(({ data }) => data)).toMatchObject([
    { state: 'firing', metric_value: 12, firing_id: fired?.firingId, channel: '#ops' },
    { state: 'resolved', metric_value: 3, firing_id: fired?.firingId },
  ])
  // The minutes that the history has, not the times at which the worker stored the changes.
  expect(told.map(({ timestamp }) => timestamp)).toStrictEqual([noon + minuteMs, noon + 2 * minuteMs])
  const { history } = await rules.history(rule.ruleId, { limit: 10, offset: 0 }, noon)
  expect(history).toMatchObject([
    { timestamp: noon + 2 * minuteMs, from: 'firing', to: 'ok', value: 3, test: false },
    {
      timestamp: noon + minuteMs,
      from: 'ok',
      to: 'firing',
      value: 12,
      notification: { status: 'pending', attempts: 0 },
    },
  ])
})

test('when three workers evaluate one minute, one has an effect', async () => {
  const rule = await ruleWith()
  const results = await Promise.all([1, 1, 1].map((minutes) => evaluate(rule, minutes, value(12))))
  expect(results.flat()).toStrictEqual(['firing'])
  expect(await deliveriesOf(rule.siteId)).toHaveLength(1)
  const resolved = await Promise.all([2, 3, 4].map((minutes) => evaluate(rule, minutes, value(0))))
  expect(resolved.flat().filter((to) => to === 'resolved')).toHaveLength(1)
  expect(await deliveriesOf(rule.siteId)).toHaveLength(2)
})

test('a measurement of a worker that wakes up late changes nothing', async () => {
  const rule = await ruleWith()
  expect(await evaluate(rule, 5, value(3))).toStrictEqual(['none'])
  expect(await evaluate(rule, 4, value(12))).toStrictEqual([])
  expect(await evaluate(rule, 5, value(12))).toStrictEqual([])
  expect(await rules.find(rule.ruleId, null)).toMatchObject({ state: { state: 'ok', lastValue: 3 } })
  expect(await deliveriesOf(rule.siteId)).toStrictEqual([])
})

test('a measurement from before a change of the rule has no effect, and a rule that is switched off does not fire', async () => {
  const rule = await ruleWith({ for: '5m' })
  await evaluate(rule, 1, value(12))
  expect(await rules.find(rule.ruleId, null)).toMatchObject({ state: { pendingSince: noon + minuteMs } })
  const change = async (of: AlertRule, parts: Partial<AlertRule['settings']>) =>
    rules.update(
      of.ruleId,
      null,
      { ...of, settings: { ...of.settings, ...parts }, isConditionChanged: 'condition' in parts },
      noon + minuteMs,
    )
  const changed = await change(rule, { for: '0s' })
  expect(changed).toMatchObject({ state: { pendingSince: noon + minuteMs }, revision: 1 })
  expect(await change(rule, { for: '1m' })).toBe('changed')
  expect(await evaluate(rule, 2, value(12))).toStrictEqual([])
  if (changed === undefined || changed === 'changed') throw new Error('the rule was not changed')
  expect(await evaluate(changed, 2, value(12))).toStrictEqual(['firing'])
  const off = await change(changed, { enabled: false })
  expect(off).toMatchObject({ state: { state: 'ok' }, firingId: null })
  expect(await evaluate({ ...changed, revision: 2 }, 3, value(0))).toStrictEqual([])
  expect(await rules.listEnabled(rule.siteId)).toStrictEqual([])
})

test('the pending time continues unless the condition changes or the rule is switched off', async () => {
  const rule = await ruleWith({ for: '5m' })
  await evaluate(rule, 1, value(12))
  const { settings, channel } = rule
  const renamed = { ...settings, name: 'renamed' }
  const changes = { revision: 0, settings: renamed, isConditionChanged: false, channel }
  expect(await rules.update(rule.ruleId, null, changes, noon)).toMatchObject({
    state: { pendingSince: noon + minuteMs },
  })
  const condition = { ...settings.condition, threshold: 11 }
  const others = { revision: 1, settings: { ...renamed, condition }, isConditionChanged: true, channel }
  // The value of the former condition would be taken for one of the new condition.
  const begunAgain = { pendingSince: null, lastValue: null }
  expect(await rules.update(rule.ruleId, null, others, noon)).toMatchObject({ state: begunAgain })
  const switched = await ruleWith({ for: '5m' })
  await evaluate(switched, 1, value(12))
  const off = { ...changes, settings: { ...switched.settings, enabled: false } }
  expect(await rules.update(switched.ruleId, null, off, noon)).toMatchObject({ state: { pendingSince: null } })
})

test('a failed measurement is told to users, and the minute may still be evaluated', async () => {
  const rule = await ruleWith()
  const { ruleId, revision } = rule
  await evaluate(rule, 1, value(12))
  const minute = noon + 2 * minuteMs
  await rules.step(minute, [{ ruleId, revision, measured: { outcome: 'failed' }, error: 'too much' }], minute)
  expect(await rules.find(ruleId, null)).toMatchObject({
    state: { state: 'firing' },
    lastError: 'too much',
    lastEvaluatedAt: noon + minuteMs + 2_000,
  })
  expect(await evaluate(rule, 2, value(1))).toStrictEqual(['resolved'])
  expect(await rules.find(ruleId, null)).toMatchObject({ lastError: null })
})

test('each webhook of the site that takes alerts gets one delivery, and one URL only one', async () => {
  const url = 'http://127.0.0.1:9/same'
  const rule = await ruleWith({ target: url })
  const { siteId } = rule
  const oldest = await addWebhook(postgres, { siteId, url, at: 1 })
  await addWebhook(postgres, { siteId, url, at: 2 })
  const other = await addWebhook(postgres, { siteId, url: 'http://127.0.0.1:9/other' })
  await addWebhook(postgres, { siteId, url: 'http://127.0.0.1:9/imports', events: ['import.completed'] })
  await addWebhook(postgres, { siteId, url: 'http://127.0.0.1:9/dev', environment: 'dev' })
  await evaluate(rule, 1, value(12))
  expect((await deliveriesOf(siteId)).map(({ endpoint }) => endpoint).sort()).toStrictEqual([oldest, other].sort())
  const { history } = await rules.history(rule.ruleId, { limit: 1, offset: 0 }, noon)
  expect(history).toMatchObject([{ notification: null }])
})

test('a rule for Slack tells its URL in the form of Slack, although a webhook with that URL is told, too', async () => {
  const url = 'http://127.0.0.1:9/slack'
  const { siteId, ...rule } = await ruleWith({ type: 'slack', target: url })
  const webhook = await addWebhook(postgres, { siteId, url })
  await evaluate({ siteId, ...rule }, 1, value(12))
  expect((await deliveriesOf(siteId)).map(({ endpoint }) => endpoint).sort()).toStrictEqual(
    [webhook, rule.ruleId].sort(),
  )
})

test('texts for people say that a rule fires because there are no events', async () => {
  const rule = await ruleWith({ type: 'email', target: '["ops@example.com"]', no_data: 'alert' })
  expect(await evaluate(rule, 1, { outcome: 'no_data', previous: 0 })).toStrictEqual(['firing'])
  const fired = await rules.find(rule.ruleId, null)
  if (fired) await rules.queueTest(fired, noon)
  const { db } = postgres
  const deliveries = await db.selectFrom('deliveries').select('body').where('endpoint_id', '=', rule.ruleId).execute()
  expect(deliveries.map(({ body }) => JSON.parse(body.toString()) as unknown)).toMatchObject(
    [1, 2].map(() => ({ text: expect.stringMatching(/^No event matched over 5m; the rule fires/) })),
  )
})

test('the outcome of an e-mail stands in the history, and its body is subject and text', async () => {
  const rule = await ruleWith({ type: 'email', target: '["ops@example.com"]' })
  await evaluate(rule, 1, value(12))
  const { db } = postgres
  const delivery = await db
    .selectFrom('deliveries')
    .selectAll()
    .where('endpoint_id', '=', rule.ruleId)
    .executeTakeFirstOrThrow()
  expect(JSON.parse(delivery.body.toString())).toMatchObject({ subject: `Many events is firing (${rule.siteId})` })
  const at = new Date(noon + 2 * minuteMs)
  await db
    .insertInto('attempts')
    .values([
      { delivery_id: delivery.delivery_id, n: 1, at, status: 451, latency_ms: 3, response: null, error: 'try later' },
      { delivery_id: delivery.delivery_id, n: 2, at, status: 250, latency_ms: 3, response: 'OK', error: null },
    ])
    .execute()
  await db.updateTable('deliveries').set({ status: 'succeeded', attempts: 2 }).execute()
  const { history } = await rules.history(rule.ruleId, { limit: 1, offset: 0 }, noon)
  expect(history[0]?.notification).toStrictEqual({
    status: 'succeeded',
    attempts: 2,
    last_attempt_at: at.getTime(),
    last_status: 250,
    last_error: null,
  })
})

test('a history is kept for 90 days', async () => {
  const rule = await ruleWith()
  const days = 24 * 60
  for (const minutes of [1, 91 * days]) {
    await evaluate(rule, minutes, value(12))
    await evaluate(rule, minutes + 1, value(0))
  }
  const historyAt = (day: number) => rules.history(rule.ruleId, { limit: 10, offset: 0 }, noon + day * days * 60_000)
  expect(await historyAt(91)).toMatchObject({ total: 2 })
  // Also when nothing has happened since.
  expect(await historyAt(182)).toStrictEqual({ history: [], total: 0 })
})

test('a test of a rule removes what its history lists no more', async () => {
  const rule = await ruleWith()
  const stored = () =>
    postgres.db.selectFrom('alert_history').select('is_test').where('rule_id', '=', rule.ruleId).execute()
  await evaluate(rule, 1, value(12))
  await rules.queueTest(rule, noon)
  expect(await stored()).toHaveLength(2)
  await rules.queueTest(rule, noon + 91 * 24 * 60 * minuteMs)
  expect(await stored()).toStrictEqual([{ is_test: true }])
})

test('the e-mail rules of a site share 10 tests in any hour, which rules of other types and other sites do not use up', async () => {
  const email = { type: 'email', target: '["ops@example.com"]' } as const
  const [one, other] = [await ruleWith(email), await ruleWith()]
  const second = await addRule(postgres, { siteId: one.siteId, at: noon, ...email })
  const hook = await addRule(postgres, { siteId: one.siteId, at: noon })
  const testAt = async (rule: AlertRule, minutes: number) => rules.queueTest(rule, noon + minutes * minuteMs)
  const queued = { state: 'queued' }
  for (let minute = 0; minute < 10; minute += 1) {
    expect(await testAt(minute % 2 ? one : second, minute)).toStrictEqual(queued)
    expect(await testAt(hook, minute)).toStrictEqual(queued)
  }
  const until = noon + 60 * minuteMs
  for (const rule of [one, second]) expect(await testAt(rule, 10)).toStrictEqual({ state: 'limited', until })
  // A repeat, because the outcome of the tenth was unknown.
  expect(await testAt(one, 9)).toStrictEqual(queued)
  expect(await testAt(hook, 10)).toStrictEqual(queued)
  expect(await testAt(other, 10)).toStrictEqual(queued)
  expect(await testAt(one, 59)).toStrictEqual({ state: 'limited', until })
  expect(await testAt(one, 60)).toStrictEqual(queued)
  expect(await testAt(one, 60.5)).toStrictEqual({ state: 'limited', until: until + minuteMs })
  const { total } = await rules.history(one.ruleId, { limit: 1, offset: 0 }, until)
  expect(total).toBe(6)
})

test('a test of an e-mail rule still counts when the rule was deleted or has another type', async () => {
  const email = { type: 'email', target: '["ops@example.com"]' } as const
  const deleted = await ruleWith(email)
  const { siteId } = deleted
  const changed = await addRule(postgres, { siteId, at: noon, ...email })
  for (let index = 0; index < 5; index += 1) {
    for (const rule of [deleted, changed])
      expect(await rules.queueTest(rule, noon + index)).toStrictEqual({ state: 'queued' })
  }
  await rules.delete(deleted.ruleId, null)
  const { db } = postgres
  await db.updateTable('endpoints').set({ channel: 'webhook' }).where('endpoint_id', '=', changed.ruleId).execute()
  const next = await addRule(postgres, { siteId, at: noon, ...email })
  expect(await rules.queueTest(next, noon + 5)).toStrictEqual({ state: 'limited', until: noon + 60 * minuteMs })
})

test('a test of an e-mail rule still counts when its site was deleted and registered again, for an hour', async () => {
  const email = { type: 'email', target: '["ops@example.com"]' } as const
  const siteId = 'deleted-site'
  const register = async () => {
    await siteStore(postgres).register([siteId])
    return addRule(postgres, { siteId, at: noon, ...email })
  }
  const rule = await register()
  for (let index = 0; index < 10; index += 1)
    expect(await rules.queueTest(rule, noon + index)).toStrictEqual({ state: 'queued' })
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null, keyId: 'key_1' } as const
  expect(await erasureStore(postgres).createForSite(erasure, () => noon + 10)).toBeDefined()
  const again = await register()
  const until = noon + 60 * minuteMs
  expect(await rules.queueTest(again, noon + 20)).toStrictEqual({ state: 'limited', until })
  expect(await rules.queueTest(again, until + 10)).toStrictEqual({ state: 'queued' })
  const left = await postgres.db.selectFrom('email_tests').select('at').where('site_id', '=', siteId).execute()
  expect(left).toStrictEqual([{ at: new Date(until + 10) }])
})

test('the e-mail rules of a site send 300 e-mails in an hour; the history says why a further one is not sent', async () => {
  const email = { type: 'email', target: '["ops@example.com"]' } as const
  const [rule, other] = [await ruleWith(email), await ruleWith(email)]
  const second = await addRule(postgres, { siteId: rule.siteId, at: noon, ...email })
  await sql`
    INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, status, created_at, lease)
    SELECT 'sent_' || n, ${second.ruleId}, 'sent:' || n, 'alert', '', 'succeeded', ${new Date(noon)}::timestamptz, 2
    FROM generate_series(1, 299) n`.execute(postgres.db)
  const notificationOf = async ({ ruleId }: AlertRule) =>
    (await rules.history(ruleId, { limit: 1, offset: 0 }, noon)).history[0]?.notification
  const refused = {
    status: 'failed',
    attempts: 1,
    last_status: null,
    last_error: 'not sent: the rules of the site had 300 e-mails to send within an hour',
  }
  await evaluate(rule, 1, value(12))
  expect(await notificationOf(rule)).toMatchObject({ status: 'pending' })
  await evaluate(rule, 2, value(1))
  await evaluate(second, 2, value(12))
  for (const each of [rule, second]) expect(await notificationOf(each)).toMatchObject(refused)
  await evaluate(other, 2, value(12))
  expect(await notificationOf(other)).toMatchObject({ status: 'pending' })
  expect(await evaluate(rule, 61, value(12))).toStrictEqual(['firing'])
  expect(await notificationOf(rule)).toMatchObject({ status: 'pending' })
})

test('e-mails that were tried still count after their rule had another channel meanwhile', async () => {
  const rule = await ruleWith({ type: 'email', target: '["ops@example.com"]' })
  // They were sent to some of their recipients.
  await sql`
    INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, status, created_at, due_at, attempts, lease)
    SELECT 'tried_' || n, ${rule.ruleId}, 'tried:' || n, 'alert', '', 'pending', moment, moment, 1, 2
    FROM generate_series(1, 300) n, CAST(${new Date(noon)} AS timestamptz) moment`.execute(postgres.db)
  for (const channel of ['slack', 'email'] as const) {
    const target = encryptTarget(testSecrets, channel, 'http://127.0.0.1:9/rule')
    await updateEndpoint(postgres.db, rule.ruleId, { channel, ...target }, noon)
  }
  await evaluate(rule, 1, value(12))
  const { history } = await rules.history(rule.ruleId, { limit: 1, offset: 0 }, noon)
  expect(history[0]?.notification?.last_error).toMatch(/^not sent: /)
})

test('concurrent tests of e-mail rules are counted one after the other', async () => {
  const rule = await ruleWith({ type: 'email', target: '["ops@example.com"]' })
  const outcomes = await Promise.all(Array.from({ length: 20 }, (_, index) => rules.queueTest(rule, noon + index)))
  expect(outcomes.filter(({ state }) => state === 'queued')).toHaveLength(10)
})

test('a new rule of a site is looked at at once, although the others of the site are not due', async () => {
  const { siteId } = await ruleWith()
  const takeSite = async (now: number) =>
    (await rules.leases.take(now, 1_000)).find((taken) => taken.job.siteId === siteId)
  const taken = await takeSite(noon)
  if (!taken) throw new Error('the site is not due')
  await rules.leases.release(taken, noon + minuteMs, { isProgress: true })
  expect(await takeSite(noon + 1)).toBeUndefined()
  await addRule(postgres, { siteId, at: noon + 1 })
  expect(await takeSite(noon + 1)).toBeDefined()
})

test('the sites with rules are jobs, and the oldest evaluated minute is that of all of them', async () => {
  const fresh = await openTestPostgres()
  const store = alertRuleStore(fresh)
  expect(await store.oldestEvaluated()).toBeUndefined()
  const [one, other] = [
    await addRule(fresh, { siteId: 'one', at: noon }),
    await addRule(fresh, { siteId: 'two', at: noon }),
  ]
  await addRule(fresh, { siteId: 'two', at: noon })
  await store.advance('one', noon + 3 * minuteMs)
  expect(await store.oldestEvaluated()).toBe(noon)
  const taken = await store.leases.take(noon, 10)
  expect(taken.map(({ job }) => job).sort((a, b) => b.allEvaluatedMinute - a.allEvaluatedMinute)).toStrictEqual([
    { siteId: 'one', allEvaluatedMinute: noon + 3 * minuteMs },
    { siteId: 'two', allEvaluatedMinute: noon },
  ])
  await store.delete(other.ruleId, null)
  await store.delete(one.ruleId, null)
  expect(await store.oldestEvaluated()).toBe(noon)
  await fresh.drop()
})
