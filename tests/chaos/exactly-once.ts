import { doFault } from './faults.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { drawSchedule, type FaultCounts } from './schedule.ts'
import { underLoad } from './under-load.ts'

export interface ExactlyOnceOptions {
  /** Decides the events, the faults and their moments. */
  seed: number
  events: number
  eventsPerSecond: number
  faults: FaultCounts
  say: Say
}

/**
 * Each of the six processes is killed 30 times in turn, writers at every point of an insert; other faults occur less
 * often.
 */
export const fullFaults: FaultCounts = {
  'kill-gateway': 30,
  'kill-writer': 10,
  'kill-writer-before-insert': 10,
  'kill-writer-after-insert': 10,
  'kill-kafka': 30,
  'kill-clickhouse': 30,
  'kill-postgres': 30,
  'kill-redis': 30,
  'freeze-writer': 3,
  'freeze-writer-inserting': 3,
  'meet-across-lanes': 5,
  'freeze-clickhouse': 5,
  'freeze-redis': 5,
  'slow-clickhouse': 5,
  'cut-clients': 5,
  'stall-clients': 5,
  'cut-kafka': 5,
  'stall-kafka': 5,
  'cut-insert-upload': 5,
  'cut-insert-running': 5,
  'cut-insert-answer': 5,
}

export const smallFaults: FaultCounts = {
  'kill-gateway': 1,
  'kill-writer-before-insert': 1,
  'kill-writer-after-insert': 1,
  'kill-kafka': 1,
  'kill-clickhouse': 1,
  'kill-postgres': 1,
  'kill-redis': 1,
  'freeze-writer-inserting': 1,
  'meet-across-lanes': 1,
  'cut-clients': 1,
  'stall-clients': 1,
  'cut-kafka': 1,
  'cut-insert-running': 1,
  'cut-insert-answer': 1,
}

/** A short run on two shards has the faults whose effect depends on the server of an insert. */
export const faultsOfShards: FaultCounts = {
  'kill-writer-after-insert': 1,
  'kill-clickhouse': 2,
  'cut-insert-answer': 1,
}

/**
 * R1: events are sent while every part fails, one fault after the other. Every event that was answered 202 must be
 * stored once and unaltered, although each event is also copied to the other lane.
 */
export async function exactlyOnce(
  rig: Rig,
  { seed, events, eventsPerSecond, faults, say }: ExactlyOnceOptions,
): Promise<Outcome> {
  const schedule = drawSchedule(seed, faults)
  const { figures, problems, details } = await underLoad(rig, {
    load: { seed, events, eventsPerSecond },
    faults: schedule.map((fault) => ({ name: fault.kind, at: fault.at, run: () => doFault(rig, fault) })),
    copies: true,
    say,
  })
  return { figures: { faults, ...figures }, problems, details }
}
