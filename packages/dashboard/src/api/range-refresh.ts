import type { StatsBatchResult } from '@sluice/contracts/stats-batch'

/** Longer than a tick of the view's clock, which makes new queries of ranges that reach now: each is sent once. */
export const soonMs = 70_000
const laterMs = 5 * 60_000
/** With older answers, events of the range are still arriving. */
const lagMsMax = 5 * 60_000

/** What the answer to a query about a range tells of its own age; times are Unix ms. */
interface RangeAnswer {
  end_date: number
  complete_until: number
  /** When the request was received. */
  timestamp?: number
}

const isGrowing = ({ end_date: end, complete_until: until, timestamp = until }: RangeAnswer): boolean =>
  until < end || timestamp - until > lagMsMax

/**
 * The `refetchMs` of a query about a range, which stays the same once the range is over: soon while events of the range
 * are still being stored, now and then afterwards, because old events may arrive at any time.
 */
export function rangeRefreshMs(...answers: (RangeAnswer | undefined)[]): number | false {
  const known = answers.filter((each) => each !== undefined)
  if (known.length === 0) return false
  return known.some(isGrowing) ? soonMs : laterMs
}

/** The `refetchMs` of a batch of queries about ranges. */
export const batchRefreshMs = (batch: Pick<StatsBatchResult, 'results'> | undefined): number | false =>
  rangeRefreshMs(...(batch?.results ?? []).map((entry) => (entry.success ? entry.data : undefined)))
