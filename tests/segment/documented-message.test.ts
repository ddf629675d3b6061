import { expect, test } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { toJsonSchema } from '@sluice/api/openapi/schema'
import { messageBody } from '@sluice/api/segment'
import { mapMessage, type MessageType } from '../../services/gateway/segment/map-message.ts'

const schemas = {}
const ajv = new Ajv2020({ allowUnionTypes: true, validateFormats: false })
ajv.addVocabulary(['components'])
const isDocumented = ajv.compile({ ...toJsonSchema(messageBody, 'input', schemas), components: { schemas } })

function isAccepted(message: object, type: MessageType): boolean {
  try {
    mapMessage(message, 'shop', type)
    return true
  } catch {
    return false
  }
}

test.each<[MessageType, object, boolean]>([
  ['track', {}, true],
  ['track', { userId: null, anonymousId: null, messageId: null }, true],
  ['track', { userId: '', anonymousId: '', messageId: '' }, true],
  ['track', { userId: true }, false],
  ['track', { messageId: ['m'] }, false],
  ['track', { timestamp: null }, true],
  ['track', { timestamp: '' }, true],
  ['track', { timestamp: '2026-01-31' }, true],
  ['track', { timestamp: true }, false],
  ['track', { properties: null, context: null, writeKey: null }, true],
  ['track', { properties: [] }, false],
  ['track', { context: 'web' }, false],
  ['page', { event: null }, true],
  ['page', { event: '' }, true],
  ['identify', { traits: null }, true],
  ['identify', { traits: [] }, false],
])('the document and the mapping agree on a %s with %j', (type, fields, expected) => {
  const message = { event: 'Order Completed', ...fields }
  expect({ mapping: isAccepted(message, type), document: isDocumented(message) }).toStrictEqual({
    mapping: expected,
    document: expected,
  })
})
