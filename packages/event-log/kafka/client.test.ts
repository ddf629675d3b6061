import { expect, test } from '@jest/globals'
import kafkajs from 'kafkajs'
import { describeKafkaError } from './client.ts'

test('the text of a failed connection ends with its code where Node’s error has no message', () => {
  const failed = new kafkajs.KafkaJSConnectionError('Connection error: ', { code: 'ECONNREFUSED' })
  expect(describeKafkaError(failed)).toBe('KafkaJSConnectionError: Connection error: ECONNREFUSED')
  const given = new kafkajs.KafkaJSNumberOfRetriesExceeded(failed, { retryCount: 1, retryTime: 1 })
  expect(describeKafkaError(given)).toBe('KafkaJSConnectionError: Connection error: ECONNREFUSED')
})

test('a text with its reason is kept', () => {
  const failed = new kafkajs.KafkaJSConnectionError('Connection timeout', { code: 'ETIMEDOUT' })
  expect(describeKafkaError(failed)).toBe('KafkaJSConnectionError: Connection timeout')
})
