import type { EventLog, PartitionLag } from '@sluice/event-log/log'

/** If the log of live rows has grown within this time, live rows arrive. In ms. */
const idleThresholdMsDefault = 5_000

/**
 * Returns a function that determines whether live rows arrive, at this writer or another one: live rows wait to be
 * stored, or the log has grown recently. Also true at the first call, and when the log does not answer.
 */
export function liveTraffic(
  log: Pick<EventLog, 'endOffsets'>,
  lag: () => readonly PartitionLag[],
  idleThresholdMs = idleThresholdMsDefault,
): () => Promise<boolean> {
  let known: bigint | undefined
  let grewAt = -Infinity

  const hasGrown = async (): Promise<boolean> => {
    const end = (await log.endOffsets()).reduce((sum, each) => sum + each, 0n)
    if (end !== known) grewAt = performance.now()
    known = end
    return performance.now() - grewAt < idleThresholdMs
  }

  return async () => lag().some(({ blocks }) => blocks > 0) || (await hasGrown().catch(() => true))
}
