import type { Insert, Part, Replica } from './cluster.ts'
import { partitionNames, type Range } from './group.ts'
import { isCopy, type Row } from './rows.ts'

/** Partitions that a writer believes that it owns, and its next step with them. */
export interface Task {
  unit: number
  state:
    | 'waiting'
    | 'synchronizing'
    | 'choosing'
    | 'committing the intent'
    | 'sending'
    | 'awaiting the answer'
    | 'looking at its replica'
    | 'looking at another'
    | 'committing'
  /** The replica of its inserts. */
  pin: Replica
  positions: Map<number, number>
  range: Range | undefined
  rows: readonly Row[]
  /** Whether this writer or another one may have sent the insert of the range before. */
  isRepeat: boolean
  /** When the last accepted commit was sent. */
  ownedAt: number
  insert: Insert | undefined
  waitsUntil: number
  /** The replica that is being synchronized, and the log entry that it must reach. */
  sync: { replica: Replica; server: number; target: number } | undefined
  /** Server of the pinned replica when it was synchronized. */
  server: number
  /** For each row of the batch the parts of the pinned replica that show it. */
  seen: readonly (readonly Part[])[]
}

/** The token of an insert: the range, and the rows in place of their hash. */
export function tokenOf({ partition, from, end, renewals }: Range, rows: readonly Row[]): string {
  return `${partition}/${from}-${end}/${renewals}/${JSON.stringify(rows)}`
}

/** The parts of a replica in which a row, or a copy of it, is. */
export function partsThatShow(row: Row, { parts }: Replica): Part[] {
  return [...parts].filter(({ rows }) => rows.some((stored) => isCopy(row, stored)))
}

export function partitionName(partition: number): string {
  return partitionNames[partition] ?? `partition ${partition}`
}

export function rangeText({ partition, from, end, renewals }: Range): string {
  return `${partitionName(partition)} ${from}–${end}${renewals > 0 ? ` with token ${renewals + 1}` : ''}`
}
