import { expect, test } from '@jest/globals'
import type { Block, DeadLetter } from '../block.ts'
import { block } from '../conformance/collect.ts'
import { splitIntoRequests } from './publisher.ts'
import { encodeRecord } from './record.ts'

test('no request has more bytes for a partition than topics take by default, with the headers of dead letters', () => {
  const reason = 'Cannot parse input: expected a number. '.repeat(12)
  const letters = Array.from({ length: 4_000 }, (_, n): Block => {
    const { headers, ...rest } = block(0, `row ${n}`)
    const letter: DeadLetter = { partition: 0, offset: String(n), reason: 'refused', text: reason, at: n }
    return { ...rest, headers: { ...headers, letter } }
  })
  const requests = splitIntoRequests(letters)
  expect(requests.flat()).toStrictEqual(letters)
  for (const request of requests) {
    const texts = request.flatMap((each) => Object.entries(encodeRecord(each).headers ?? {}).flat())
    const headerBytes = texts.reduce((sum, text) => sum + Buffer.byteLength(String(text)), 0)
    const payloadBytes = request.reduce((sum, { payload }) => sum + payload.length, 0)
    expect(headerBytes + payloadBytes).toBeLessThanOrEqual(1_000_000)
  }
})
