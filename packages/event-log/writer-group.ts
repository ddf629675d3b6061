/**
 * The consumer group of a store's writers: each partition has one writer, and every store behind a log gets all events.
 * `storeId` is the UUID that the store got from `migrate`.
 */
export function writerGroup(storeId: string): string {
  return `sluice-writer-${storeId}`
}

/** The group before stores had ids, which all stores behind one log shared. `migrate` takes its positions over. */
export function formerWriterGroup(logId: string): string {
  return `sluice-writer-${logId}`
}
