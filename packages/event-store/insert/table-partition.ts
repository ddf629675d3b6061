const monthsSince = Date.UTC(2020, 0)

/**
 * The partition of `events` that holds a row of this time (Unix ms), as the table's PARTITION BY computes it: the year,
 * or since 2020 the year and month, e.g. 202601. NaN for a time that is none.
 */
export function tablePartitionOf(timestamp: number): number {
  const date = new Date(timestamp)
  const year = date.getUTCFullYear()
  return timestamp < monthsSince ? year : year * 100 + date.getUTCMonth() + 1
}
