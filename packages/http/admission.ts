import { eventLimits } from '@sluice/contracts/event-limits'
import { unavailable } from '@sluice/runtime/errors'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { serverLimits } from './server-limits.ts'

/** Memory that the requests of one key have reserved, or all requests without a key. */
export interface MemoryQuota {
  reservedBytes: number
  /** Upper limit of the quota, however much memory is free. */
  readonly bytesMax: number
  /** A network may have so much, if a third of the quota is left to other networks: what one request may need. */
  readonly networkMin: number
  /** The bytes of each network whose clients have reserved some with `network`. */
  readonly networks: Map<string, number>
}

/**
 * Memory that clients share. One quota may have at most half of what the other quotas leave, so that no client can take
 * all of it.
 */
export interface SharedMemory {
  /** The quota of a key; for undefined, the quota that all requests without a key share. */
  quotaOf(keyId: string | undefined): MemoryQuota
  /**
   * Reserves `bytes` until they are released. With `network`, that of the client, the same rule applies within the
   * quota: one network may have at most half of what the other networks leave, or two thirds for one large request
   * (`networkMin`). Throws the 503 if the bytes do not fit, and reserves nothing then.
   */
  reserve(quota: MemoryQuota, bytes: number, network?: string): void
  /** `network`: as in the call that reserved the bytes. */
  release(quota: MemoryQuota, bytes: number, network?: string): void
}

/**
 * Bounds the memory of requests in flight. Each request reserves a fixed amount and the size of its body, compressed
 * and decompressed. A client that sends faster than the engines accept is refused before its request is read, while
 * accepted requests continue at full speed.
 */
export interface Admission extends SharedMemory {
  /** The quota of all requests whose key is in a body that has not been read yet. */
  readonly bodyKeyQuota: MemoryQuota
  /**
   * True while a request of a key without a reservation would not fit. Such a key may reserve half of the memory that
   * is left.
   */
  isFull(): boolean
  /**
   * Memory of responses that have not been written out. It is separate from the memory of requests, so that clients
   * which do not read their responses do not cause requests to be refused.
   */
  readonly responses: SharedMemory
}

/** Why requests are refused while `isFull`. */
export const memoryIsFull = 'requests in progress hold all the memory that they may use'

/** Beyond this number, quotas without a reservation are removed. */
const quotasMax = 10_000

/** An admission with the limits of `serverLimits`. */
export function createAdmission(metrics: Metrics): Admission {
  const { inFlightBytesMax, responseBytesMax, bodyKeyInFlightBytesMax, requestBytes } = serverLimits
  const requests = sharedMemory(inFlightBytesMax, memoryIsFull)
  const responses = sharedMemory(responseBytesMax, 'answers that clients have not read hold all the memory they may')
  new Gauge({
    name: 'sluice_http_in_flight_bytes',
    help: 'Memory that is accounted to requests in progress.',
    registers: [metrics],
    collect() {
      this.set(requests.reservedTotal())
    },
  })
  new Gauge({
    name: 'sluice_http_unread_answer_bytes',
    help: 'Memory of answers that clients have not read.',
    registers: [metrics],
    collect() {
      this.set(responses.reservedTotal())
    },
  })
  return {
    ...requests,
    bodyKeyQuota: memoryQuota(bodyKeyInFlightBytesMax),
    isFull: () => requestBytes > (inFlightBytesMax - requests.reservedTotal()) / 2,
    responses,
  }
}

function memoryQuota(bytesMax: number, networkMin = 0): MemoryQuota {
  return { reservedBytes: 0, bytesMax, networkMin, networks: new Map() }
}

/** The largest batch, as it was received and decompressed. */
const largestRequestBytes = serverLimits.requestBytes + 2 * eventLimits.batchBytesMax

/** `full`: why a reservation is refused, for operators. */
function sharedMemory(bytesMax: number, full: string): SharedMemory & { reservedTotal(): number } {
  const publicQuota = memoryQuota(serverLimits.publicInFlightBytesMax)
  const quotas = new Map<string, MemoryQuota>()
  let reservedTotal = 0
  return {
    reservedTotal: () => reservedTotal,
    quotaOf: (keyId) => {
      if (keyId === undefined) return publicQuota
      let quota = quotas.get(keyId)
      if (quota === undefined) {
        if (quotas.size >= quotasMax)
          for (const [id, { reservedBytes }] of quotas) if (reservedBytes === 0) quotas.delete(id)
        quota = memoryQuota(bytesMax, largestRequestBytes)
        quotas.set(keyId, quota)
      }
      return quota
    },
    reserve: (quota, bytes, network) => {
      const { reservedBytes, networkMin, networks } = quota
      const quotaMax = Math.min((bytesMax - (reservedTotal - reservedBytes)) / 2, quota.bytesMax)
      if (reservedBytes + bytes > quotaMax) throw unavailable(full)
      if (network !== undefined) {
        const held = networks.get(network) ?? 0
        const left = quotaMax - (reservedBytes - held)
        const networkMax = Math.max(left / 2, Math.min(networkMin, (left * 2) / 3))
        if (held + bytes > networkMax) throw unavailable(full)
        networks.set(network, held + bytes)
      }
      quota.reservedBytes += bytes
      reservedTotal += bytes
    },
    release: (quota, bytes, network) => {
      quota.reservedBytes -= bytes
      reservedTotal -= bytes
      if (network === undefined) return
      const held = (quota.networks.get(network) ?? 0) - bytes
      // A network without a reservation is forgotten, because there may be any number of networks.
      if (held > 0) quota.networks.set(network, held)
      else quota.networks.delete(network)
    },
  }
}
