import type { MessagePort } from 'node:worker_threads'
import type { RowBatch, SegmentOutcome, SegmentTask } from './encode-segment.ts'

/** Hands a segment to the thread of the encoder. Each message on `port` asks for one answer. */
export interface EncodeRequest {
  port: MessagePort
  content: Uint8Array
  task: SegmentTask
}

/** The answers: batches, then the outcome or a failure. Buffers arrive as plain Uint8Arrays. */
export type EncodeAnswer =
  | { kind: 'batch'; batch: RowBatch }
  | { kind: 'outcome'; outcome: SegmentOutcome }
  | { kind: 'failure'; message: string }
