import { acceptance } from '@sluice/event-log/acceptance-deadline'

/** A writer's view of the log at one moment. */
export interface LogSnapshot {
  /** Unix ms, taken before the log's ends were requested. */
  requestedAt: number
  /** Offsets after the newest blocks, by partition. */
  ends: readonly bigint[]
  /** The group's position in each partition that this writer owns: every event below it is stored or a dead letter. */
  committed: ReadonlyMap<number, bigint>
}

/**
 * The rule of `complete_until` (docs/decisions/013-complete-until.md). The returned function takes one snapshot after the
 * other and returns by partition the time (Unix ms) until which every event that was or ever will be answered 202 is stored
 * or a dead letter; undefined where that is not known now. Each result stays true, whichever writer owns the partition.
 *
 * Every event that was acknowledged before the log's ends were requested lies below these ends. Once the group has
 * committed up to such an end, only events are missing that were acknowledged later, and a gateway received these no
 * earlier than `acceptance.msMax` before.
 */
export function watermark(): (snapshot: LogSnapshot) => (number | undefined)[] {
  /** Ends that are not reached yet, by partition, with the times at which they were requested. */
  const pendingTargets = new Map<number, { requestedAt: number; end: bigint }>()

  function completeSince(partition: number, position: bigint, requestedAt: number, end: bigint): number | undefined {
    if (position >= end) {
      pendingTargets.delete(partition)
      return requestedAt
    }
    // Under load the newest end is always ahead, but an earlier one may be reached.
    const target = pendingTargets.get(partition)
    const isReached = target !== undefined && position >= target.end
    if (target === undefined || isReached) pendingTargets.set(partition, { requestedAt: requestedAt, end })
    return isReached ? target.requestedAt : undefined
  }

  return ({ requestedAt: requestedAt, ends, committed }) =>
    ends.map((end, partition) => {
      const position = committed.get(partition)
      const at = position === undefined ? undefined : completeSince(partition, position, requestedAt, end)
      return at === undefined ? undefined : at - acceptance.msMax - acceptance.clockSkewMsMax - 1
    })
}
