import { internalError } from '@sluice/runtime/errors'

/** What a process tells the operator to do when the number may have changed since it started. */
export const partitionsReadAtStart =
  'A process reads the number of partitions when it starts: if it has been changed since, restart this one.'

/**
 * Throws AppError, with what to do, unless the number of the log's partitions is a multiple of the number of
 * ClickHouse's shards. An event is in the partition `hash % partitions` and on the shard `partition % shards`. If the
 * number is a multiple, the shard is `hash % shards`, independent of the number of partitions.
 */
export function requirePartitionsMultipleOf(shards: number, partitions: number): void {
  if (partitions % shards === 0) return
  throw internalError(
    `The log has ${partitions} partitions and ClickHouse ${shards} shards: the number of partitions must be a multiple of ` +
      `${shards}, or copies of an event would be stored on different shards. Add partitions as docs/operations.md describes it.`,
  )
}
