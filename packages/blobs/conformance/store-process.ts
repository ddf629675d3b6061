// A process for tests that kill it, measure its memory, or give it another environment. It sends one message.
import { setTimeout as sleep } from 'node:timers/promises'
import { internalMessage } from '@sluice/runtime/errors'
import { openBlobStore, type OpenBlobStoreOptions } from '../open-blob-store.ts'

const [task = '', url = '', options = '{}'] = process.argv.slice(2)
const mebibyte = 1024 * 1024
const store = await openBlobStore(url, JSON.parse(options) as OpenBlobStoreOptions)

/** A number of MiB, each a buffer of its own, as it comes from a socket. */
async function* content(mebibytes: number): AsyncGenerator<Buffer> {
  for (let n = 0; n < mebibytes; n++) yield await Promise.resolve(Buffer.alloc(mebibyte, n))
}

async function writeAndRead(mebibytes: number): Promise<void> {
  await store.write('large', content(mebibytes))
  let bytes = 0
  for await (const chunk of await store.read('large')) bytes += (chunk as Buffer).length
  if (bytes !== mebibytes * mebibyte) throw new Error(`${bytes} bytes were read`)
}

if (task === 'hang') {
  // Stops in the middle of a content that is larger than one request.
  await store.write(
    'hanging',
    (async function* () {
      yield* content(20)
      process.send?.({ written: 20 })
      await sleep(60_000)
    })(),
  )
}
if (task === 'check') {
  const failure = await store.check().then(() => '', internalMessage)
  process.send?.({ failure })
  process.disconnect()
  await store.close()
}
if (task === 'memory') {
  // Warms up: memory for code and buffers of the first requests is not counted as growth.
  await writeAndRead(32)
  const before = process.resourceUsage().maxRSS
  await writeAndRead(256)
  process.send?.({ before: before / 1024, growth: (process.resourceUsage().maxRSS - before) / 1024 })
  process.disconnect()
  await store.close()
}
