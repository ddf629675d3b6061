import { acceptance } from '@sluice/event-log/acceptance-deadline'

/** A writer's view of the log at one moment. */
export interface LogSnapshot {
  /** Unix ms before the log's ends were requested, by a clock that is not ahead of Postgres's. */
  requestedAt: number
  /** Offsets after the newest blocks, by partition. */
  endOffsets: readonly bigint[]
  /** The group's position in each partition that this writer owns: every event below it is stored or a dead letter. */
  committed: ReadonlyMap<number, bigint>
}

/** How far `complete_until` is behind the request of the ends that the group has reached. */
const behindMs = acceptance.msMax + acceptance.clockMarginMs + 1
/** Targets of one partition: requests of 16 s of backlog; beyond that they lie further apart. */
const targetsMax = 64

interface Target {
  requestedAt: number
  end: bigint
}

/** Ends of one partition that are not reached yet, in the order of their requests. */
interface Backlog {
  targets: readonly Target[]
  /** The shortest time between the requests of two targets. */
  spacingMs: number
}

/**
 * The rule of `complete_until` (docs/decisions/017-freshness.md). The returned function takes one snapshot after the
 * other and returns by partition the time (Unix ms) until which every event that was or ever will be answered 202 is
 * stored or a dead letter; undefined where that is not known now. Each result stays true, whichever writer owns the
 * partition.
 *
 * Every event that was acknowledged before the log's ends were requested lies below these ends. Once the group has
 * committed up to such an end, only events are missing that were acknowledged later, and a gateway received these no
 * earlier than `acceptance.msMax` before.
 */
export function watermark(): (snapshot: LogSnapshot) => (number | undefined)[] {
  const backlogs = new Map<number, Backlog>()

  function completeSince(partition: number, position: bigint, newest: Target): number | undefined {
    if (position >= newest.end) {
      backlogs.delete(partition)
      return newest.requestedAt
    }
    // Under load the newest end is always ahead, but earlier ones are reached.
    const { targets, spacingMs } = backlogs.get(partition) ?? { targets: [], spacingMs: 0 }
    const pending = targets.filter(({ end }) => position < end)
    backlogs.set(partition, withTarget({ targets: pending, spacingMs }, newest))
    return targets.findLast(({ end }) => position >= end)?.requestedAt
  }

  return ({ requestedAt, endOffsets, committed }) =>
    endOffsets.map((end, partition) => {
      const position = committed.get(partition)
      if (position === undefined) return undefined
      const at = completeSince(partition, position, { requestedAt, end })
      return at === undefined ? undefined : at - behindMs
    })
}

function withTarget({ targets, spacingMs }: Backlog, newest: Target): Backlog {
  const [first] = targets
  const last = targets.at(-1)
  if (first === undefined || last === undefined) return { targets: [newest], spacingMs }
  // When two requests found the same end, the later one proves more.
  if (last.end === newest.end) return { targets: [...targets.slice(0, -1), newest], spacingMs }
  if (newest.requestedAt - last.requestedAt < spacingMs) return { targets, spacingMs }
  if (targets.length < targetsMax) return { targets: [...targets, newest], spacingMs }
  const everySecond = targets.filter((_, index) => index % 2 === 0)
  return { targets: [...everySecond, newest], spacingMs: (newest.requestedAt - first.requestedAt) / everySecond.length }
}
