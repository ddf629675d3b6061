import { withDeadline } from './deadline.ts'
import { unavailable } from './errors.ts'
import { poller } from './poller.ts'
import type { Component } from './supervisor.ts'
import type { SynchronizedClock } from './synchronized-clock.ts'

const defaultIntervalMs = 1_000
/** A Postgres that hangs must not delay a stop. A comparison that takes this long would also say little. */
const timeoutMs = 2_000

/**
 * Compares `clock` with the clock of Postgres at the start and once a second. While Postgres is unavailable, the last
 * comparison stays in use. The pollers of keys and sites log the outage.
 */
export function clockPoller(
  clock: Pick<SynchronizedClock, 'compare'>,
  readTime: () => Promise<number>,
  { intervalMs = defaultIntervalMs }: { intervalMs?: number } = {},
): Component {
  return poller({
    name: 'clock',
    intervalMs,
    poll: () => withDeadline(clock.compare(readTime), timeoutMs, () => unavailable('Postgres is slow')),
    // Requests that arrive right after the start need a clock.
    pollsAtStart: true,
  })
}
