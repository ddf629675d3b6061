import { expect, test } from '@jest/globals'
import { alertNotice, emailBody, noticeBody, type NotifiedRule, slackBody, webhookBody } from './alert-notices.ts'

const rule: NotifiedRule = {
  ruleId: 'alr_1',
  environment: 'prod',
  name: 'Errors <!channel> & more',
  condition: { metric: 'event_count', operator: 'greater_than', threshold: 10, window: '5m' },
  channel: '#ops',
}
const at = { siteId: 'shop', timestamp: Date.UTC(2026, 0, 2, 3, 4) }
const firing = alertNotice(rule, at, { state: 'firing', value: 12, firingId: 'fir_1' })

test('a webhook gets the documented delivery, with firing_id and channel', () => {
  expect(webhookBody(firing)).toStrictEqual({
    event_type: 'alert',
    timestamp: at.timestamp,
    site_id: 'shop',
    data: {
      alert_id: 'alr_1',
      rule_name: 'Errors <!channel> & more',
      metric_value: 12,
      state: 'firing',
      metric: 'event_count',
      operator: 'greater_than',
      threshold: 10,
      window: '5m',
      channel: '#ops',
      firing_id: 'fir_1',
    },
  })
})

test('Slack gets a text with the time, in which a name can mention nobody', () => {
  expect(slackBody(firing)).toStrictEqual({
    text: `:red_circle: *Errors &lt;!channel&gt; &amp; more is firing (shop)*
event_count was 12 over 5m; the condition is greater than 10.
Time: 2026-01-02T03:04:00.000Z`,
    channel: '#ops',
  })
})

test('a name with asterisks or several lines stays within the bold text', () => {
  const notice = alertNotice({ ...rule, name: 'Errors *now*\nor later' }, at, {
    state: 'firing',
    value: 1,
    firingId: 'fir_1',
  })
  expect(slackBody(notice).text.split('\n')[0]).toBe(':red_circle: *Errors \u2217now\u2217 or later is firing (shop)*')
})

test('a channel that is no name of Slack is named by its text', () => {
  const notice = alertNotice({ ...rule, channel: 'on call <!here>' }, at, {
    state: 'resolved',
    value: 0,
    firingId: 'fir_1',
  })
  expect(slackBody(notice)).toStrictEqual({
    text: expect.stringMatching(/^:large_green_circle: \*.*\n.*\n.*\nChannel: on call &lt;!here&gt;$/),
  })
})

test('an e-mail has a subject of one line, and says what was compared', () => {
  const percent: NotifiedRule = {
    ...rule,
    name: 'Drop\r\nBcc: eve@example.com',
    condition: { ...rule.condition, operator: 'decreases_by_percent', threshold: 50 },
  }
  const notice = alertNotice(percent, at, { state: 'resolved', value: 3, firingId: 'fir_1' })
  expect(emailBody(notice)).toStrictEqual({
    subject: 'Drop Bcc: eve@example.com is resolved (shop)',
    text: `event_count was 3 over 5m; the condition is a decrease by 50 % against the 5m before.

Site: shop
Time: 2026-01-02T03:04:00.000Z
Channel: #ops
Rule: alr_1
Firing: fir_1
`,
  })
})

test('texts for people name the event type and the environment dev, which the body of a webhook lacks', () => {
  const { condition } = rule
  const purchases: NotifiedRule = {
    ...rule,
    environment: 'dev',
    condition: { ...condition, metric: 'event_count_by_type', event_type: 'purchase\nof <1>' },
  }
  const notice = alertNotice(purchases, at, { state: 'firing', value: 12, firingId: 'fir_1' })
  const sentence = 'event_count_by_type of "purchase of <1>" was 12 over 5m; the condition is greater than 10.'
  expect(emailBody(notice)).toMatchObject({
    subject: 'Errors <!channel> & more is firing (shop, dev)',
    text: expect.stringContaining(`${sentence}\n`),
  })
  expect(slackBody(notice).text).toContain('is firing (shop, dev)*')
  expect(slackBody(notice).text).toContain(sentence.replace('<1>', '&lt;1&gt;'))
  expect(webhookBody(notice)).toStrictEqual({
    ...webhookBody(firing),
    data: { ...firing.data, metric: 'event_count_by_type' },
  })
})

test.each([
  ['avg_session_duration', 'greater_than', 'was 12 s over 5m; the condition is greater than 10 s.'],
  ['bounce_rate', 'greater_than', 'was 12 % over 5m; the condition is greater than 10 %.'],
  ['avg_session_duration', 'increases_by_percent', 'was 12 s over 5m; the condition is an increase by 10 % against'],
] as const)('texts for people have the units of %s, %s', (metric, operator, text) => {
  const condition = { ...rule.condition, metric, operator }
  const notice = alertNotice({ ...rule, condition }, at, { state: 'firing', value: 12, firingId: 'fir_1' })
  expect(emailBody(notice).text).toContain(`${metric} ${text}`)
})

test('texts for people say that a rule has a filter, and that no session began', () => {
  const filter = [{ property: 'country', operator: 'equals', value: 'DE' }] as const
  const filtered = { ...rule, condition: { ...rule.condition, filter: [...filter] } }
  const change = { state: 'firing', value: 0, firingId: 'fir_1' } as const
  expect(emailBody(alertNotice(filtered, at, change)).text).toContain(
    "event_count of the events that match the rule's filter was 0 over 5m;",
  )
  const rate: NotifiedRule = { ...rule, condition: { ...rule.condition, metric: 'bounce_rate' } }
  expect(emailBody(alertNotice(rate, at, { ...change, isNoData: true })).text).toContain(
    'No session that matches began within 5m; the rule fires when none does.',
  )
})

test('a test says so everywhere', () => {
  const notice = alertNotice(rule, at, { state: 'firing', value: 0, firingId: 'fir_2', isTest: true })
  expect(notice.data.test).toBe(true)
  for (const type of ['slack', 'email'] as const) {
    expect(new TextDecoder().decode(noticeBody(notice, type))).toContain('Test: Errors')
  }
})
