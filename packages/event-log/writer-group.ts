/**
 * The consumer group of a store's writers. Its members share the partitions, and every store behind a log reads all
 * events. `storeId` is the UUID that `migrate` gave the store.
 */
export function writerGroup(storeId: string): string {
  return `sluice-writer-${storeId}`
}

/** The group from the time before stores had ids. All stores behind one log shared it. `migrate` copies its offsets. */
export function formerWriterGroup(logId: string): string {
  return `sluice-writer-${logId}`
}
