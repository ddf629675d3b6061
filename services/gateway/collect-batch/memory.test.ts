import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { zstdCompressSync } from 'node:zlib'
import { waitUntil } from '@sluice/engines/processes'
import { startGateway, type TestGateway } from '../gateway.test-support.ts'

const mebibyte = 1024 * 1024
const gate = Promise.withResolvers<undefined>()
let waitingRows = 0
let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({
    wrapLog: (log) => ({
      ...log,
      publish: async (blocks, options) => {
        for (const { headers } of blocks) waitingRows += headers.rows
        await gate.promise
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
  collectGarbage()
  const before = process.memoryUsage().arrayBuffers
  const answers = Array.from({ length: 8 }, () =>
    gateway.collectBatch(padded, { headers: { 'Content-Encoding': 'zstd' } }),
  )
  await waitUntil(() => waitingRows === 8, '8 events wait for the log', 20_000)
  // What a collection frees is swept beside the program, and counted once that is done.
  await waitUntil(
    () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers - before < 30 * mebibyte
    },
    'all but three of the bodies have left memory',
    5_000,
  )
  gate.resolve(undefined)
  for (const { status } of await Promise.all(answers)) expect(status).toBe(202)
})
