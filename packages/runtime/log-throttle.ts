/** Times of the last log line are kept for this many kinds of lines; beyond that all are forgotten. */
const kindsMax = 100

/**
 * Creates a check of whether a log line of a kind is due. It is true at most once in `intervalMs` for each kind, and a
 * check that is true starts the next interval. The kind may be a message; without one, all lines are of one kind.
 */
export function logThrottle(intervalMs: number): (kind?: string) => boolean {
  const lastLoggedAt = new Map<string, number>()
  return (kind = '') => {
    const now = performance.now()
    if (now - (lastLoggedAt.get(kind) ?? -Infinity) < intervalMs) return false
    if (lastLoggedAt.size >= kindsMax) lastLoggedAt.clear()
    lastLoggedAt.set(kind, now)
    return true
  }
}
