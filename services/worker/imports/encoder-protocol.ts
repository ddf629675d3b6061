import type { MessagePort } from 'node:worker_threads'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'

/**
 * Hands a segment to the thread of the encoder. On `port`, each message of the main thread asks for one answer. On
 * `content`, each message of the encoder's thread asks for one chunk of the segment: a Uint8Array, or null after the
 * last. A closed channel means that nothing more comes, because the other side has failed or no longer needs the
 * segment.
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

/**
 * The bytes in memory of their own: the same memory if nothing else uses it, otherwise a copy. Such memory can be moved
 * to the other thread.
 */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes
  return buffer instanceof ArrayBuffer && byteLength === buffer.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes)
}

/**
 * Frees memory that nobody reads any more. V8 does so at its next garbage collection, but a thread with long-lived
 * buffers makes little garbage: up to 64 MiB of unused buffers would wait in each thread.
 */
export function release({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}
