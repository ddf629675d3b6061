import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { resumeBody } from './resume-body.ts'

test('the rest is requested when the reader has taken what was received before the connection broke', async () => {
  const content = randomBytes(300_000)
  const received = 100_000
  const connection = new PassThrough({ highWaterMark: content.length })
  const requested: number[] = []
  const stream = resumeBody(connection, (from) => {
    requested.push(from)
    return Promise.resolve(Readable.from([content.subarray(from)], { objectMode: false }))
  })
  connection.write(content.subarray(0, received))
  await waitUntil(() => stream.readableLength === received, 'the first bytes have arrived')

  const closed = once(connection, 'close')
  connection.destroy()
  await closed
  for (let round = 0; round < 100; round++) await setImmediate()
  expect([requested, stream.readableLength]).toEqual([[], received])

  const chunks = (await stream.toArray()) as Buffer[]
  expect(Buffer.concat(chunks).equals(content)).toBe(true)
  expect(requested).toEqual([received])
})
