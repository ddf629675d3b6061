import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'

/**
 * How long the connection to one of several addresses of a name may take before Node tries the next address. Node's
 * default is 250 ms, which is less than a handshake over a satellite or a lost packet takes, and Node gives up the former
 * address then. Redis allows 2 s for all addresses together.
 */
const attemptTimeoutMs = 1_000

/** Lets this thread's connections to names with several addresses, such as those with IPv4 and IPv6, take longer. */
export function allowSlowConnections(): void {
  setDefaultAutoSelectFamilyAttemptTimeout(attemptTimeoutMs)
}
