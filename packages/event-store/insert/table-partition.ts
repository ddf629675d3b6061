const monthsSince = Date.UTC(2020, 0)

/**
 * The partition of `events` that holds a row with this time (Unix ms), by the table's PARTITION BY: the year, or since
 * 2020 the year and month, for example 202601. NaN for an invalid time.
 */
export function tablePartitionOf(timestamp: number): number {
  const date = new Date(timestamp)
  const year = date.getUTCFullYear()
  return timestamp < monthsSince ? year : year * 100 + date.getUTCMonth() + 1
}
