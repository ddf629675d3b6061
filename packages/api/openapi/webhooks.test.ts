import { describe, expect, it, test } from '@jest/globals'
import { alertNotice, noticeBody, type NotifiedRule } from '@sluice/contracts/alert-notices'
import { deliveryKinds } from '@sluice/contracts/webhooks'
import { checkDelivery } from '../../../tests/support/check-delivery.ts'
import { operations } from '../operations.ts'
import { openApiDocument } from './document.ts'

const { webhooks, paths } = openApiDocument(operations, { version: '1.2.3' })
const operationsOf = (items: typeof paths) => Object.values(items).flatMap((item) => Object.values(item))

describe('the document of the deliveries', () => {
  it('has each kind', () => expect(Object.keys(webhooks)).toEqual(deliveryKinds))

  // openapi-generator makes a class for each tag, and that of the deliveries would replace that of the operations.
  it('has a tag and names that no operation has', () => {
    const taken = operationsOf(paths).flatMap(({ tags, operationId }) => [...tags, operationId])
    const names = operationsOf(webhooks).flatMap(({ tags, operationId }) => [...tags, operationId])
    expect(names.filter((name) => taken.includes(name))).toEqual([])
  })

  it('has the headers of a signature', () => {
    expect(webhooks.alert?.post.parameters?.map(({ name, required }) => [name, required])).toEqual([
      ['x-svc-delivery', true],
      ['x-svc-timestamp', true],
      ['x-svc-signature', true],
      ['x-svc-signature-previous', undefined],
    ])
  })
})

// The tests of the other kinds check their bodies likewise, where they are made.
describe('the body of an alert', () => {
  const rule: NotifiedRule = {
    ruleId: 'alr_1',
    environment: 'prod',
    name: 'Errors',
    condition: { metric: 'event_count', operator: 'greater_than', threshold: 10, window: '5m' },
    channel: '#ops',
  }
  const event = { state: 'firing', value: 12.5, firingId: 'fir_1' } as const
  const bodyOf = (parts: object, changed: object) => {
    const notice = alertNotice({ ...rule, ...parts }, { siteId: 'shop', timestamp: 1 }, { ...event, ...changed })
    return JSON.parse(new TextDecoder().decode(noticeBody(notice, 'webhook'))) as { event_type: string }
  }

  test.each([
    ['of a rule that fires', {}, {}],
    ['of a rule that resolves', {}, { state: 'resolved' }],
    ['of a rule without a channel', { channel: null }, {}],
    ['of a test', {}, { isTest: true }],
  ])('%s is as documented', (_, parts, changed) => expect(() => checkDelivery(bodyOf(parts, changed))).not.toThrow())

  test('with another field is not', () => {
    const body = { ...bodyOf({}, {}), colour: 'red' }
    expect(() => checkDelivery(body)).toThrow(/must NOT have additional properties/)
  })
})
