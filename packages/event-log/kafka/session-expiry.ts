import type { KafkaGroupTimes } from './group-times.ts'

/** Detects that the group must have removed this member: they had no contact for the session timeout. */
export interface SessionExpiry {
  /** Notes a response of the group. */
  recordContact(): void
  /** Notes that the member joins: no heartbeat is sent until the slowest member of the group has rejoined. */
  recordRejoin(): void
  /** Notes that the member has joined. */
  recordJoined(): void
  /** Returns false once the session has expired. */
  check(): boolean
}

/**
 * A session that has begun to join. `onExpired` gets the reason, in the first `check` after the time has passed. After
 * a freeze of this process such a check notices the expiry before any response from the network does.
 */
export function createSessionExpiry(
  times: Pick<KafkaGroupTimes, 'sessionTimeoutMs' | 'rebalanceTimeoutMs'>,
  onExpired: (reason: string) => void,
): SessionExpiry {
  let lastContactAt = performance.now()
  let isJoining = true
  let hasExpired = false

  return {
    recordContact() {
      lastContactAt = performance.now()
    },
    recordRejoin() {
      isJoining = true
    },
    recordJoined() {
      lastContactAt = performance.now()
      isJoining = false
    },
    check() {
      const silentMs = Math.round(performance.now() - lastContactAt)
      if (!hasExpired && silentMs > times.sessionTimeoutMs + (isJoining ? times.rebalanceTimeoutMs : 0)) {
        hasExpired = true
        onExpired(`nothing heard of the group for ${silentMs} ms`)
      }
      return !hasExpired
    },
  }
}
