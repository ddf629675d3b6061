import { type SluiceError, unavailable } from '@sluice/contracts/errors'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'
import { serverLimits } from './server-limits.ts'

/** What one holder, a key or all who have none, has under way. */
export interface Account {
  heldBytes: number
  /** It may hold so much, however empty the memory is. */
  readonly bytesMax: number
}

/**
 * Bounds the memory of requests under way: each counts for its body, compressed and not, and a flat sum for the rest.
 * Who sends faster than the engines take is refused before he is read, and what was taken goes on at full speed. No
 * holder may have more than half of what the others leave, so that none of them can take it all from the others.
 */
export interface Admission {
  /** Of a key, or of those who need none (undefined). */
  accountOf(keyId: string | undefined): Account
  /** Counts `bytes` until they are released; the 503 when they don't fit. */
  hold(account: Account, bytes: number): SluiceError | undefined
  release(account: Account, bytes: number): void
  /** True while no further request fits. */
  full(): boolean
}

/** Beyond them, those that hold nothing are forgotten. */
const accountsMax = 10_000

export function createAdmission(metrics: Metrics): Admission {
  const { inFlightBytesMax, publicInFlightBytesMax, requestBytes } = serverLimits
  const everybody: Account = { heldBytes: 0, bytesMax: publicInFlightBytesMax }
  const accounts = new Map<string, Account>()
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
    accountOf: (keyId) => {
      if (keyId === undefined) return everybody
      let account = accounts.get(keyId)
      if (account === undefined) {
        if (accounts.size >= accountsMax)
          for (const [id, { heldBytes }] of accounts) if (heldBytes === 0) accounts.delete(id)
        account = { heldBytes: 0, bytesMax: inFlightBytesMax }
        accounts.set(keyId, account)
      }
      return account
    },
    hold: (account, bytes) => {
      const left = inFlightBytesMax - (held - account.heldBytes)
      const wanted = account.heldBytes + bytes
      if (wanted > left / 2 || wanted > account.bytesMax) {
        return unavailable('requests under way hold all the memory they may')
      }
      account.heldBytes = wanted
      held += bytes
      return undefined
    },
    release: (account, bytes) => {
      account.heldBytes -= bytes
      held -= bytes
    },
    full: () => held + requestBytes > inFlightBytesMax,
  }
}
