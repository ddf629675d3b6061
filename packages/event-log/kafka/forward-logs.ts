import { type LogEntry, logLevel } from 'kafkajs'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { Logger } from '@sluice/runtime/logger'

/** While a broker is unavailable, kafkajs logs the same line for every attempt of every request. */
const repeatIntervalMs = 10_000

/**
 * Forwards kafkajs's log lines to the logger. kafkajs logs errors from which it recovers, so its lines become warnings
 * at most, each once in ten seconds. Repetitions are logged at debug.
 */
export function forwardKafkaLogs(logger: Pick<Logger, 'debug' | 'warn'>): (entry: LogEntry) => void {
  const isDue = logThrottle(repeatIntervalMs)

  return ({ level, namespace, log }) => {
    const { message, timestamp: _, logger: __, stack: ___, ...fields } = log
    const line = { kafkajs: namespace, ...fields }
    const isWarning = level === logLevel.ERROR || level === logLevel.WARN
    if (isWarning && isDue(message)) logger.warn(line, message)
    else logger.debug(line, message)
  }
}
