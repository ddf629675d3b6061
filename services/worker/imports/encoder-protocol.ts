import type { MessagePort } from 'node:worker_threads'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'

/**
 * Hands a segment to the thread of the encoder. Each message of the main thread on `port` asks for one answer, each
 * message of the encoder's thread on `content` for one chunk of the segment: a Uint8Array, or null after the last. A
 * channel that is closed says that there is no more to come, because it failed or is not wanted any more.
 */
export interface EncodeRequest {
  port: MessagePort
  content: MessagePort
  task: SegmentTask
}

/** The answers: batches, then the outcome or a failure. Buffers arrive as plain Uint8Arrays. */
export type EncodeAnswer =
  | { kind: 'batch'; batch: RowBatch }
  | { kind: 'outcome'; outcome: SegmentOutcome }
  | { kind: 'failure'; message: string }

/** The bytes with memory of their own, a copy if they share it: such memory can be moved to the other thread. */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes
  return buffer instanceof ArrayBuffer && byteLength === buffer.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes)
}

/**
 * Frees memory that nobody reads any more. V8 does so when it next collects garbage, of which a thread with long-lived
 * buffers makes little: up to 64 MiB of them wait in each.
 */
export function release({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}
