// The thread of segment-encoder.ts.
import { once } from 'node:events'
import { type MessagePort, parentPort, type Transferable } from 'node:worker_threads'
import { collectBuffers } from '@sluice/runtime/collect-buffers'
import { internalMessage } from '@sluice/runtime/errors'
import { encodeSegment, type RowBatch } from './encode-segment.ts'
import { type EncodeAnswer, type EncodeRequest, ownBytes, release } from './encoder-protocol.ts'

parentPort?.on('message', ({ port, content, task }: EncodeRequest) => {
  const batches = encodeSegment(chunksFrom(content), task)

  async function nextAnswer(): Promise<EncodeAnswer> {
    try {
      const next = await batches.next()
      return next.done ? { kind: 'outcome', outcome: next.value } : { kind: 'batch', batch: detached(next.value) }
    } catch (error) {
      return { kind: 'failure', message: internalMessage(error) }
    }
  }

  async function answer(): Promise<void> {
    const answered = await nextAnswer()
    collectBuffers()
    port.postMessage(answered, answered.kind === 'batch' ? buffersOf(answered.batch) : [])
  }

  port.on('message', () => void answer())
  // The segment is no longer needed.
  port.on('close', () => void batches.return({ processed: 0, failed: 0, errors: undefined }))
})

async function* chunksFrom(port: MessagePort): AsyncGenerator<Uint8Array, void, undefined> {
  const closed = once(port, 'close').then(() => {
    throw new Error('the content of the segment ends early')
  })
  closed.catch(() => undefined)
  try {
    for (;;) {
      const message = once(port, 'message') as Promise<[Uint8Array | null]>
      port.postMessage('next')
      const [chunk] = await Promise.race([message, closed])
      if (chunk === null) return
      yield chunk
      release(chunk)
    }
  } finally {
    port.close()
  }
}

/**
 * The batch with buffers that share their memory with nothing, so that they are moved to the other thread and not
 * copied.
 */
function detached({ blocks, users }: RowBatch): RowBatch {
  const own = (bytes: Buffer): Buffer => Buffer.from(ownBytes(bytes).buffer)
  if (blocks === undefined) return { users: own(users) }
  return { blocks: blocks.map((block) => ({ ...block, payload: own(block.payload) })) }
}

function buffersOf({ blocks, users }: RowBatch): Transferable[] {
  const buffers = blocks === undefined ? [users] : blocks.map(({ payload }) => payload)
  return buffers.map(({ buffer }) => buffer as ArrayBuffer)
}
