import { once } from 'node:events'
import { createServer } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { block } from '../conformance/collect.ts'
import { createKafkaClient } from './client.ts'
import { forwardKafkaLogs } from './forward-logs.ts'
import { createKafkaPublisher, type KafkaPublisher } from './publisher.ts'

const mebibyte = 1024 * 1024
let brokers: string[]
let publisher: KafkaPublisher

/** A port of 127.0.0.1 without a listener. */
async function deadAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address !== 'object' || address === null) throw new Error('a TCP server has a port')
  return `127.0.0.1:${address.port}`
}

function open(unacknowledgedBytesMax: number): void {
  publisher = createKafkaPublisher({
    topic: 'events',
    partitions: () => Promise.resolve(1),
    createClient: () =>
      createKafkaClient({
        address: { brokers, topic: 'events', tls: undefined, sasl: undefined },
        logger: silentLogger,
        forward: forwardKafkaLogs(silentLogger),
        clientId: 'test',
        requestTimeoutMs: 1000,
        retry: { retries: 0 },
      }),
    unacknowledgedBytesMax,
    logger: silentLogger,
  })
}

const publish = (bytes: number, timeoutMs: number) => publisher.publish([block(0, 'x', {}, bytes)], { timeoutMs })

beforeEach(async () => {
  brokers = [await deadAddress()]
})

afterEach(async () => {
  await publisher.close()
})

describe('while Kafka is unavailable from the start', () => {
  test('rejected publishes are not kept in memory', async () => {
    open(1024 * mebibyte)
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    collectGarbage()
    const before = process.memoryUsage().arrayBuffers
    for (let n = 0; n < 64; n++) {
      await expect(publish(mebibyte, 5)).rejects.toMatchObject({ code: 'unavailable' })
    }
    // An attempt to connect that is under way may hold the last ones for a moment.
    const isFree = () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers - before < 16 * mebibyte
    }
    await waitUntil(isFree, 'the memory is free')
  })

  test('pending bytes count for as long as their publish waits', async () => {
    open(1000)
    const first = publish(600, 300)
    await expect(publish(600, 300)).rejects.toMatchObject({
      code: 'unavailable',
      internal: expect.stringContaining('has not acknowledged 600 bytes'),
    })
    const late = { code: 'unavailable', internal: expect.stringContaining('not acknowledged within 300 ms') }
    await expect(first).rejects.toMatchObject(late)
    await expect(publish(600, 300)).rejects.toMatchObject(late)
  })
})
