/** Why an event of a batch was rejected (docs/http-interface.md#batches). */
export interface EventError {
  /** Place of the event in the batch, from 0. */
  index: number
  /** The id that the client sent, if any. */
  event_id?: string
  error: string
}

/** `data` of every answer to a batch. */
export interface BatchResult {
  accepted: number
  rejected: number
  /** The first errors, in the order of the batch. */
  errors: EventError[]
}
