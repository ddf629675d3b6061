import { acceptance } from '@sluice/event-log/acceptance-deadline'

/** A writer's view of the log at one moment. */
export interface LogSnapshot {
  /** Unix ms before the log's ends were requested, by a clock that is not ahead of Postgres's. */
  requestedAt: number
  /** Offsets after the newest blocks, by partition. */
  endOffsets: readonly bigint[]
  /**
   * The group's committed offset in each partition that this writer owns. All events below it are stored or dead
   * letters.
   */
  committed: ReadonlyMap<number, bigint>
}

/** How far `complete_until` is before the request of the ends that the group has reached. */
const behindMs = acceptance.msMax + acceptance.clockMarginMs + 1
/**
 * Maximum number of targets of one partition: the requests of 16 s. With a longer backlog, the targets lie further
 * apart.
 */
const targetsMax = 64

interface Target {
  requestedAt: number
  end: bigint
}

/** The requested ends of one partition that are not reached yet, in the order of their requests. */
interface Backlog {
  targets: readonly Target[]
  /** The shortest time between the requests of two targets. */
  spacingMs: number
}

/**
 * The rule of `complete_until` (docs/decisions/017-freshness.md). The returned function takes successive snapshots. It
 * returns for each partition a time (Unix ms) until which all events that were or will be answered 202 are stored or
 * dead letters; undefined when such a time is unknown. Each result stays true, even if another writer owns the
 * partition later.
 *
 * Every event that was acknowledged before the log's ends were requested is below these ends. When the group has
 * committed up to such an end, only events that were acknowledged later can be missing, and a gateway received them at
 * most `acceptance.msMax` before their acknowledgement.
 */
export function watermarkRule(): (snapshot: LogSnapshot) => (number | undefined)[] {
  const backlogs = new Map<number, Backlog>()

  function completeSince(partition: number, position: bigint, newest: Target): number | undefined {
    if (position >= newest.end) {
      backlogs.delete(partition)
      return newest.requestedAt
    }
    // Under load the newest end is always ahead of the group, but the group reaches earlier ends.
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
  // If two requests found the same end, the later request proves more.
  if (last.end === newest.end) return { targets: [...targets.slice(0, -1), newest], spacingMs }
  if (newest.requestedAt - last.requestedAt < spacingMs) return { targets, spacingMs }
  if (targets.length < targetsMax) return { targets: [...targets, newest], spacingMs }
  const everySecond = targets.filter((_, index) => index % 2 === 0)
  return { targets: [...everySecond, newest], spacingMs: (newest.requestedAt - first.requestedAt) / everySecond.length }
}
