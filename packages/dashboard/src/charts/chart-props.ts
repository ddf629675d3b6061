import type { TimeUnit } from '@sluice/contracts/stats'
import type { NumberKind } from '../format/numbers.ts'

/** A line over time, and what it is compared with. */
export interface ChartProps {
  /** The sentence that says what is shown. */
  caption: string
  /** Latest, highest and change, for screen readers. */
  summary: string
  /** What arrow keys do, for screen readers. */
  help: string
  /** Starts of the buckets, Unix ms, ascending. */
  timestamps: readonly number[]
  values: readonly number[]
  /** The compared buckets, by their order. */
  compared?: { timestamps: readonly number[]; values: readonly number[] } | undefined
  kind: NumberKind
  unit: TimeUnit
  zone: string
  /** The first bucket begins before the range. */
  isFirstPartial?: boolean
  /** The last bucket is not over, or goes beyond the range. */
  isLastPartial?: boolean
  /** Text for a partial first bucket: `part of the range only`. */
  firstNote?: string
  /** Text for a partial last bucket: `still counting`. */
  lastNote?: string
  /** A click, or Enter on a point. */
  onPick?: (index: number) => void
  /** A drag from one bucket to another, both included. */
  onSelect?: (from: number, to: number) => void
  /** Draws columns instead of a line. */
  isColumns?: boolean
}
