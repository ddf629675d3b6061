import { acceptance } from '@sluice/contracts/acceptance'

/** What a writer sees of the log at one moment. */
export interface Sight {
  /** Unix ms, before the log was asked for its ends. */
  askedAt: number
  /** By partition, the offset after the newest block. */
  ends: readonly bigint[]
  /** The group's position in each partition that this writer holds: what lies below is stored, or a dead letter. */
  committed: ReadonlyMap<number, bigint>
}

/**
 * The rule of `complete_until` (docs/decisions/013-complete-until.md). Given what the writer sees again and again,
 * returns by partition until when (Unix ms) every event is settled that was or ever will be answered 202; undefined
 * where that can't be told now. Each answer is true from then on, whoever holds the partition.
 *
 * What was acknowledged before the log was asked lies below the end that it told. So once the group has committed up to
 * that end, only events are missing that were acknowledged later, and these were received no longer ago than a gateway
 * takes for a 202.
 */
export function watermark(): (sight: Sight) => (number | undefined)[] {
  /** By partition, an end that is not reached yet, with the time at which it was asked for. */
  const aims = new Map<number, { askedAt: number; end: bigint }>()

  function settledAt(partition: number, position: bigint, askedAt: number, end: bigint): number | undefined {
    if (position >= end) {
      aims.delete(partition)
      return askedAt
    }
    // Under load the end is always ahead; the one of before may be reached.
    const aim = aims.get(partition)
    const isReached = aim !== undefined && position >= aim.end
    if (aim === undefined || isReached) aims.set(partition, { askedAt, end })
    return isReached ? aim.askedAt : undefined
  }

  return ({ askedAt, ends, committed }) =>
    ends.map((end, partition) => {
      const position = committed.get(partition)
      const at = position === undefined ? undefined : settledAt(partition, position, askedAt, end)
      return at === undefined ? undefined : at - acceptance.msMax - acceptance.clockSkewMsMax - 1
    })
}
