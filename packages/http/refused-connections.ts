import { logThrottle } from '@sluice/runtime/log-throttle'
import type { Logger } from '@sluice/runtime/logger'
import { Counter, type Metrics } from '@sluice/runtime/metrics'
import { serverLimits } from './server-limits.ts'

/** Clients that are refused connect again at once. */
const logIntervalMs = 60_000

/**
 * Returns what is to be called for each connection that a full listener refuses: it counts them, and logs a warning once
 * a minute. Such a connection has no request, so that neither the other metrics nor the log of requests show it.
 */
export function refusedConnections(metrics: Metrics, logger: Pick<Logger, 'warn'>): () => void {
  const refused = new Counter({
    name: 'sluice_http_connections_refused_total',
    help: `Connections that were closed at once because ${serverLimits.connectionsMax} were open.`,
    registers: [metrics],
  })
  const isLogDue = logThrottle(logIntervalMs)
  return () => {
    refused.inc()
    if (isLogDue()) logger.warn('connections are refused: the process has as many as it may')
  }
}
