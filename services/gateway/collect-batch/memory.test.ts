import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'

const mebibyte = 1024 * 1024
const gate = Promise.withResolvers<undefined>()
let isGated = false
let waitingRows = 0
let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({
    wrapLog: (log) => ({
      ...log,
      publish: async (blocks, options) => {
        if (isGated) {
          for (const { headers } of blocks) waitingRows += headers.rows
          await gate.promise
        }
        await log.publish(blocks, options)
      },
    }),
  })
})

afterAll(async () => {
  gate.resolve(undefined)
  await gateway.stop()
})

test('a body of 10 MiB after decompression is released from memory while its event waits for the log', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const padded = zstdCompressSync(`{"events":[{"site_id":"padded","event_type":"x"}]}`.padEnd(10 * mebibyte))
  expect(padded.length).toBeLessThan(2_000)
  // The first event also reads the number of the log's partitions, which has a deadline of its own.
  expect((await gateway.collectBatch(padded, { headers: { 'Content-Encoding': 'zstd' } })).status).toBe(202)
  isGated = true
  collectGarbage()
  const before = process.memoryUsage().arrayBuffers
  // Together, the decompressed bodies are smaller than the memory limit of requests in flight.
  const bodies = 5
  const sentAt = Date.now()
  const answers: ReturnType<TestGateway['collectBatch']>[] = []
  for (let n = 1; n <= bodies; n++) {
    answers.push(gateway.collectBatch(padded, { headers: { 'Content-Encoding': 'zstd' } }))
    // On a busy machine, the last of five at once would wait for its decompression until it is refused.
    await waitUntil(() => waitingRows === n, 'the event waits for the log')
  }
  // Memory is released by a background thread after the garbage collection, and counted after that.
  await waitUntil(() => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers - before < 20 * mebibyte
  }, 'all but one of the bodies have left memory')
  gate.resolve(undefined)
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  // On a busy machine the acknowledgement may come too late for a 202; the events are stored nevertheless.
  const isInTime = Date.now() - sentAt <= acceptance.msMax
  for (const status of statuses) expect(isInTime ? [202] : [202, 503]).toContain(status)
  expect(await gateway.stored('padded', 1 + bodies)).toHaveLength(1 + bodies)
})
