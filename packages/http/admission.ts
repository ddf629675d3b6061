import { type AppError, unavailable } from '@sluice/runtime/errors'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { serverLimits } from './server-limits.ts'

/** The memory that the requests of one key reserve, or all requests without a key. */
export interface MemoryQuota {
  reservedBytes: number
  /** Upper limit of the quota, however much memory is free. */
  readonly bytesMax: number
}

/**
 * Bounds the memory of requests in flight. Each request reserves a fixed amount and the size of its body, compressed
 * and decompressed. A client that sends faster than the engines accept is refused before its request is read, while
 * accepted requests continue at full speed. One quota may have at most half of the memory that the other quotas leave, so
 * that no client can take all of it.
 */
export interface Admission {
  /** The quota of a key; for undefined, the quota that all requests without a key share. */
  quotaOf(keyId: string | undefined): MemoryQuota
  /** The quota of all requests whose key is in a body that has not been read yet. */
  readonly bodyKeyQuota: MemoryQuota
  /** Reserves `bytes` until they are released. Returns the 503 if they do not fit, and reserves nothing then. */
  reserve(quota: MemoryQuota, bytes: number): AppError | undefined
  release(quota: MemoryQuota, bytes: number): void
  /** True while no request of a further key fits, which may have half of the memory that is left. */
  isFull(): boolean
}

/** Beyond this number, quotas without a reservation are removed. */
const quotasMax = 10_000

/** An admission with the limits of `serverLimits`. */
export function createAdmission(metrics: Metrics): Admission {
  const { inFlightBytesMax, publicInFlightBytesMax, bodyKeyInFlightBytesMax, requestBytes } = serverLimits
  const publicQuota: MemoryQuota = { reservedBytes: 0, bytesMax: publicInFlightBytesMax }
  const quotas = new Map<string, MemoryQuota>()
  let reservedTotal = 0
  new Gauge({
    name: 'sluice_http_in_flight_bytes',
    help: 'Memory that requests under way count for.',
    registers: [metrics],
    collect() {
      this.set(reservedTotal)
    },
  })
  return {
    bodyKeyQuota: { reservedBytes: 0, bytesMax: bodyKeyInFlightBytesMax },
    quotaOf: (keyId) => {
      if (keyId === undefined) return publicQuota
      let quota = quotas.get(keyId)
      if (quota === undefined) {
        if (quotas.size >= quotasMax)
          for (const [id, { reservedBytes }] of quotas) if (reservedBytes === 0) quotas.delete(id)
        quota = { reservedBytes: 0, bytesMax: inFlightBytesMax }
        quotas.set(keyId, quota)
      }
      return quota
    },
    reserve: (quota, bytes) => {
      const availableBytes = inFlightBytesMax - (reservedTotal - quota.reservedBytes)
      const reservedAfter = quota.reservedBytes + bytes
      if (reservedAfter > availableBytes / 2 || reservedAfter > quota.bytesMax) {
        return unavailable('requests under way hold all the memory they may')
      }
      quota.reservedBytes = reservedAfter
      reservedTotal += bytes
      return undefined
    },
    release: (quota, bytes) => {
      quota.reservedBytes -= bytes
      reservedTotal -= bytes
    },
    isFull: () => requestBytes > (inFlightBytesMax - reservedTotal) / 2,
  }
}
