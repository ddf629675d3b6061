import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'

/**
 * The agent of a client of ClickHouse, with at most `maxSockets` connections. Connections are ended when idle for 2.5 s:
 * ClickHouse ends them itself after 3 to 30 s, depending on its release (docs/decisions/033-clickhouse-connections.md).
 */
export function keepAliveAgent(
  { origin, ca }: { origin: string; ca?: string | undefined },
  { maxSockets }: { maxSockets: number },
): HttpAgent {
  // First in, first out: of the idle connections, node:http skips those that it has just ended at the head of its list
  // alone. From the tail, its default, it may give one to a statement, which fails.
  const options = { keepAlive: true, maxSockets, timeout: 2_500, scheduling: 'fifo' as const }
  return origin.startsWith('https:')
    ? new HttpsAgent({ ...options, ...(ca !== undefined && { ca }) })
    : new HttpAgent(options)
}
