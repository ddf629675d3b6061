/**
 * An event in a block of the log. Copies of a dated event have the same time, those of an undated one different times.
 */
export interface Row {
  event: string
  at: number
  undated: boolean
}

/** Length of a partition of the table. */
const monthTicks = 10

/** Copies of an undated event are at most so far apart; 15 minutes in the product. */
const copyWindow = 3

export function monthOf({ at }: Row): number {
  return Math.floor(at / monthTicks)
}

/**
 * Whether `row` is a copy of `stored` by the conditions of packages/event-store/insert/event-inserter.ts, and is left
 * out.
 */
export function isCopy(row: Row, stored: Row): boolean {
  if (row.event !== stored.event || row.undated !== stored.undated) return false
  return row.undated ? Math.abs(row.at - stored.at) <= copyWindow : row.at === stored.at
}

/**
 * The rows of a batch that the insert stores. It goes through them in order of time, and leaves out copies of stored
 * rows and of rows that it has kept.
 */
export function rowsToStore(batch: readonly Row[], stored: readonly Row[]): Row[] {
  const kept: Row[] = []
  for (const row of [...batch].sort((a, b) => a.at - b.at)) {
    const isOld = [stored, kept].some((others) => others.some((other) => isCopy(row, other)))
    if (!isOld) kept.push(row)
  }
  return kept
}

const dated = ['a', 'b', 'c', 'd', 'e', 'f']
const undated = ['u', 'v']

/** Number of different rows that `rowOf` makes. */
export const rowKinds = dated.length + undated.length * 4

/** The row of a number: six dated events in two months, two undated ones with copies on both sides of a month's end. */
export function rowOf(kind: number): Row {
  const event = dated[kind]
  if (event !== undefined) return { event, at: (kind % 2) * monthTicks + kind, undated: false }
  const index = kind - dated.length
  const at = monthTicks - 2 + (index % 4)
  return { event: undated[Math.floor(index / 4) % undated.length] ?? 'u', at, undated: true }
}

export function rowText({ event, at, undated }: Row): string {
  return undated ? `${event}@${at}` : event
}
