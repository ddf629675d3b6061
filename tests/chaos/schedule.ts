import { drawBelow, seededRandom, shuffled } from './random.ts'

/** The kinds of faults in a run; faults.ts causes them. */
export const faultKinds = [
  'kill-gateway',
  'kill-writer',
  'kill-writer-before-insert',
  'kill-writer-after-insert',
  'kill-kafka',
  'kill-clickhouse',
  'kill-postgres',
  'kill-redis',
  'freeze-writer',
  'freeze-writer-inserting',
  'meet-across-lanes',
  'freeze-clickhouse',
  'freeze-redis',
  'slow-clickhouse',
  'cut-clients',
  'stall-clients',
  'cut-kafka',
  'stall-kafka',
  'cut-insert-upload',
  'cut-insert-running',
  'cut-insert-answer',
] as const

export type FaultKind = (typeof faultKinds)[number]

export type FaultCounts = Readonly<Partial<Record<FaultKind, number>>>

export interface Fault {
  kind: FaultKind
  /** Index of the affected gateway or writer. */
  target: 0 | 1
  /** The share of acknowledged events at which the fault begins. */
  at: number
}

/**
 * Creates the faults of a run: each kind as often as given, the kinds in turn rather than one after the other. Only the
 * seed decides their order and moments. Each fault has its own share of the events and begins in the first half of that
 * share, so that events are sent while it lasts.
 */
export function drawSchedule(seed: number, counts: FaultCounts): Fault[] {
  const random = seededRandom(seed)
  const rounds = Math.max(0, ...Object.values(counts))
  const kinds = Array.from({ length: rounds }, (_, round) =>
    shuffled(
      random,
      faultKinds.filter((kind) => {
        const due = (done: number): number => Math.floor((done * (counts[kind] ?? 0)) / rounds)
        return due(round + 1) > due(round)
      }),
    ),
  ).flat()
  return kinds.map((kind, index) => ({
    kind,
    target: drawBelow(random, 2) as 0 | 1,
    at: (index + random() / 2) / kinds.length,
  }))
}

/** The share of the events that may be sent before fault number `index` has ended. */
export function shareUntil(index: number, faults: number): number {
  return index >= faults ? 1 : (index + 1) / faults
}
