import type { KafkaGroupTimes } from './group-times.ts'

/** Detects that the group must have removed this member, because there was no contact for the session timeout. */
export interface SessionExpiry {
  /** Records a response of the group. */
  recordContact(): void
  /** Records that the member joins. No heartbeat is sent until the slowest member of the group has rejoined. */
  recordRejoin(): void
  /** Records that the member has joined. */
  recordJoined(): void
  /** Returns false once the session has expired. */
  check(): boolean
}

/**
 * Creates the expiry of a session whose member is joining the group. `onExpired` gets the reason in the first `check`
 * after the timeout. After a freeze of this process, `check` detects the expiry before any response from the network is
 * processed.
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
        onExpired(`no response from the group coordinator for ${silentMs} ms`)
      }
      return !hasExpired
    },
  }
}
