import { type SluiceError, unavailable } from '@sluice/contracts/errors'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { serverLimits } from './server-limits.ts'

/**
 * Bounds the memory of requests under way: each counts for its body, compressed and not, and a flat sum for the rest.
 * Who sends faster than the engines take is refused before he is read, and what was taken goes on at full speed.
 */
export interface Admission {
  /** Counts `bytes` until they are released; the 503 when they don't fit. */
  hold(bytes: number): SluiceError | undefined
  release(bytes: number): void
  /** True while no further request fits. */
  full(): boolean
}

export function createAdmission(metrics: Metrics): Admission {
  const { inFlightBytesMax, requestBytes } = serverLimits
  let held = 0
  new Gauge({
    name: 'sluice_http_in_flight_bytes',
    help: 'Memory that requests under way count for.',
    registers: [metrics],
    collect() {
      this.set(held)
    },
  })
  return {
    hold: (bytes) => {
      if (held + bytes > inFlightBytesMax) return unavailable('requests under way hold all the memory they may')
      held += bytes
      return undefined
    },
    release: (bytes) => {
      held -= bytes
    },
    full: () => held + requestBytes > inFlightBytesMax,
  }
}
