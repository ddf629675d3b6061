import { ConfigError } from '@sluice/runtime/config'

/** The configuration from which the times of a stop follow. */
export interface StopConfig {
  SLUICE_DRAIN_SECONDS?: number
  SLUICE_STOP_SECONDS?: number
}

/** Longest durations of the phases of a stop, in ms. */
export interface StopTimes {
  /** `/readyz` answers 503, and requests are still taken. */
  drainMs: number
  /** No connection is accepted any more, and the requests under way end. */
  requestsMs: number
  /** The whole stop. */
  totalMs: number
}

/** Orchestrators kill a process 10 s after the signal, unless they are told otherwise. */
const totalMsDefault = 10_000
/** Part of the stop for everything but requests: polls, a running insert, connections to engines. */
const closeMs = 3_000
/** The answer to a request of the gateway takes at most 2.5 s. */
const requestsMsMin = 3_000

/** Throws ConfigError when SLUICE_STOP_SECONDS leaves too little time after SLUICE_DRAIN_SECONDS. */
export function stopTimes({
  SLUICE_DRAIN_SECONDS: drainSeconds = 0,
  SLUICE_STOP_SECONDS: stopSeconds,
}: StopConfig): StopTimes {
  const drainMs = drainSeconds * 1000
  const totalMsMin = drainMs + requestsMsMin + closeMs
  const totalMs = stopSeconds === undefined ? Math.max(totalMsDefault, totalMsMin) : stopSeconds * 1000
  if (totalMs < totalMsMin) {
    throw new ConfigError([
      `SLUICE_STOP_SECONDS must be at least ${totalMsMin / 1000}, 6 more than SLUICE_DRAIN_SECONDS (it is ${totalMs / 1000})`,
    ])
  }
  return { drainMs, requestsMs: totalMs - drainMs - closeMs, totalMs }
}
