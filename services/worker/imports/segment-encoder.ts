import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import { AppError } from '@sluice/runtime/errors'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'
import type { EncodeAnswer, EncodeRequest } from './encoder-protocol.ts'

/** Encodes segments in a thread of its own: a gateway in the same process must not wait for it. */
export interface SegmentEncoder {
  /**
   * Encodes a segment, whose `content` is given away, and hands each batch to `store`, one after the other; meanwhile the next
   * one is encoded. Rejects with what `store` throws, and with an AppError when the segment can't be read. A thread that
   * dies is such an error, because a segment that kills its thread would otherwise be tried without end.
   */
  encode(
    content: Uint8Array<ArrayBuffer>,
    task: SegmentTask,
    store: (batch: RowBatch) => Promise<void>,
  ): Promise<SegmentOutcome>
  /** Ends the thread. */
  close(): Promise<void>
}

/**
 * The thread's heap in MiB: more than a segment and its rows take; beyond it, the thread ends and not the process. Its rows
 * live so shortly that a small young generation costs no time, and the default one 110 MiB of memory.
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
    // The channels of its segments are closed with it, which says so to whoever waits.
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
      const request: EncodeRequest = { port: port2, content, task }
      running.postMessage(request, [port2, content.buffer])
      try {
        let answer = await next()
        while (answer.kind === 'batch') {
          const following = next()
          following.catch(() => undefined)
          await store(withBuffers(answer.batch))
          answer = await following
        }
        if (answer.kind === 'failure') throw unreadable(answer.message)
        const { errors, ...counts } = answer.outcome
        return { ...counts, errors: errors && asBuffer(errors) }
      } finally {
        port.close()
      }
    },
    close: async () => {
      await running?.terminate()
    },
  }
}

/** The failure of a segment that is there and can't be read. */
export function unreadable(internal: string): AppError {
  return new AppError('internal', { message: 'The uploaded file can not be read', internal })
}

function withBuffers({ blocks, users }: RowBatch): RowBatch {
  if (blocks === undefined) return { users: asBuffer(users) }
  return { blocks: blocks.map((block) => ({ ...block, payload: asBuffer(block.payload) })) }
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
