import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import { collectBuffers } from '@sluice/runtime/collect-buffers'
import { AppError } from '@sluice/runtime/errors'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'
import { type EncodeAnswer, type EncodeRequest, ownBytes, release } from './encoder-protocol.ts'

/** Encodes segments in a thread of its own: a gateway in the same process must not wait for it. */
export interface SegmentEncoder {
  /**
   * Encodes a segment while `content` is read. Hands each batch to `store`, one after the other, and encodes the next
   * one meanwhile. The chunks of `content` are moved to the thread, and the memory of stored batches is freed. Rejects
   * with what `content` or `store` throws, and with an AppError when the segment can't be read. A thread that dies
   * leads to an AppError, too, because a segment that kills its thread would otherwise be tried without end.
   */
  encode(
    content: AsyncIterable<Uint8Array>,
    task: SegmentTask,
    store: (batch: RowBatch) => Promise<void>,
  ): Promise<SegmentOutcome>
  /** Ends the thread. */
  close(): Promise<void>
}

/**
 * The thread's heap in MiB: more than a segment and its rows take. Beyond it, the thread ends and not the process. The
 * rows are so short-lived that a small young generation costs no time; the default one would take 110 MiB of memory.
 */
const resourceLimits = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 4 }

/** The thread is started when it is needed, and again after one that has ended. `onThread` is for tests that end it. */
export function openSegmentEncoder({ onThread }: { onThread?: (thread: Worker) => void } = {}): SegmentEncoder {
  let running: Worker | undefined

  function start(): Worker {
    const thread = new Worker(fileURLToPath(new URL('./encoder-worker.ts', import.meta.url)), {
      name: 'imports',
      resourceLimits,
    })
    // The channels of its segments are closed with it, which ends the waits for them.
    thread.on('error', () => undefined)
    thread.once('exit', () => {
      if (running === thread) running = undefined
    })
    thread.unref()
    onThread?.(thread)
    return thread
  }

  return {
    encode: async (content, task, store) => {
      running ??= start()
      const { port1: port, port2 } = new MessageChannel()
      const closed = once(port, 'close').then(() => {
        throw unreadable('the thread that encodes imports has ended')
      })
      closed.catch(() => undefined)
      const next = async (): Promise<EncodeAnswer> => {
        const answer = once(port, 'message') as Promise<[EncodeAnswer]>
        port.postMessage('next')
        const [received] = await Promise.race([answer, closed])
        return received
      }
      const source = sendOnRequest(content)
      const request: EncodeRequest = { port: port2, content: source.port, task }
      running.postMessage(request, [port2, source.port])
      try {
        let answer = await next()
        while (answer.kind === 'batch') {
          const following = next()
          following.catch(() => undefined)
          const batch = withBuffers(answer.batch)
          await store(batch)
          releaseBatch(batch)
          // Frees the records that Kafka's client made of the batch: nothing refers to them any more.
          collectBuffers()
          answer = await following
        }
        if (answer.kind === 'failure') throw source.failure() ?? unreadable(answer.message)
        const { errors, ...counts } = answer.outcome
        return { ...counts, errors: errors && asBuffer(errors) }
      } finally {
        port.close()
        await source.close()
      }
    },
    close: async () => {
      await running?.terminate()
    },
  }
}

/** Sends a chunk to the other side of `port` for each of its messages, so that few are in memory. */
function sendOnRequest(content: AsyncIterable<Uint8Array>) {
  const { port1, port2 } = new MessageChannel()
  const chunks = content[Symbol.asyncIterator]()
  let failure: Error | undefined
  async function send(): Promise<void> {
    try {
      const next = await chunks.next()
      const chunk = next.done ? null : ownBytes(next.value)
      port1.postMessage(chunk, chunk === null ? [] : [chunk.buffer])
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error))
      port1.close()
    }
  }
  port1.on('message', () => void send())
  return {
    port: port2,
    failure: () => failure,
    close: async () => {
      port1.close()
      await chunks.return?.()
    },
  }
}

/** The failure of a segment that is there and can't be read. */
export function unreadable(internal: string): AppError {
  return new AppError('internal', { message: 'The uploaded file cannot be read', internal })
}

function withBuffers({ blocks, users }: RowBatch): RowBatch {
  if (blocks === undefined) return { users: asBuffer(users) }
  return { blocks: blocks.map((block) => ({ ...block, payload: asBuffer(block.payload) })) }
}

function releaseBatch({ blocks, users }: RowBatch): void {
  if (blocks === undefined) release(users)
  else for (const { payload } of blocks) release(payload)
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
