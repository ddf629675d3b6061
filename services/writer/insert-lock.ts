/**
 * Number of insert locks of a log. An event is in the partition `hash % partitions`. While the number of partitions
 * changes from one multiple of 4 to another, an event and its copy may be in two partitions. `partition % 4` is the
 * same for both, so their inserts use the same lock (docs/decisions/040-partitions-grow-under-load.md).
 */
export const insertLockCount = 4

/**
 * The `query_id` of the inserts of a partition, of the live and of the backfill topic. ClickHouse runs only one query
 * with an id at a time, so an insert sees the rows that the previous one has stored, and skips copies of them.
 */
export function insertQueryId(logId: string, partition: number): string {
  return `writer-${logId}-${partition % insertLockCount}`
}
