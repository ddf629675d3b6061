import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { zstdCompressSync } from 'node:zlib'
import { waitUntil } from '@sluice/engines/processes'
import { startGateway, type TestGateway } from '../gateway.test-support.ts'

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
  await gateway.stop()
})

test('what unpacked to 10 MiB does not stay in memory while its event waits for the log', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const padded = zstdCompressSync(`{"events":[{"site_id":"padded","event_type":"x"}]}`.padEnd(10 * mebibyte))
  expect(padded.length).toBeLessThan(2_000)
  // The first event asks for the log's partitions, and has a deadline for all of it.
  expect((await gateway.collectBatch(padded, { headers: { 'Content-Encoding': 'zstd' } })).status).toBe(202)
  isGated = true
  collectGarbage()
  const before = process.memoryUsage().arrayBuffers
  // Fewer than what requests under way may hold, should all be unpacked at the same time.
  const bodies = 5
  const answers = Array.from({ length: bodies }, () =>
    gateway.collectBatch(padded, { headers: { 'Content-Encoding': 'zstd' } }),
  )
  await waitUntil(() => waitingRows === bodies, 'the events wait for the log', 20_000)
  // What a collection frees is swept beside the program, and counted once that is done.
  await waitUntil(
    () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers - before < 20 * mebibyte
    },
    'all but one of the bodies have left memory',
    5_000,
  )
  gate.resolve(undefined)
  for (const { status } of await Promise.all(answers)) expect(status).toBe(202)
})
