import { internalError } from '@sluice/runtime/errors'

/**
 * The error with its remedy, unless each shard of ClickHouse has the same number of the log's partitions. An event is
 * in the partition `hash % partitions` and on the shard `partition % shards`: only for a multiple is that
 * `hash % shards`, whatever the number of partitions was or will be.
 */
export function unevenPartitionsText(partitions: number, shards: number): string | undefined {
  if (partitions % shards === 0) return undefined
  return (
    `The log has ${partitions} partitions and ClickHouse ${shards} shards: the number of partitions must be a multiple of ` +
    `${shards}, or copies of an event would be stored on different shards. Add partitions as docs/operations.md describes it.`
  )
}

/** Throws AppError with the text of `unevenPartitionsText`. */
export function requireWholePartitions(partitions: number, shards: number): void {
  const internal = unevenPartitionsText(partitions, shards)
  if (internal !== undefined) throw internalError(internal)
}
