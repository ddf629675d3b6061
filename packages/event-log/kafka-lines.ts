import { logLevel, type LogEntry } from 'kafkajs'
import type { EventLogLogger } from './logger.ts'

/** While a broker is away, kafkajs says the same for every attempt of every request. */
const repeatMsMin = 10_000
const rememberedMax = 100

/**
 * Takes kafkajs's own lines to the logger. It calls much an error that it then recovers from by itself, so they are
 * warnings at most, each only once in ten seconds; repetitions go to debug.
 */
export function forwardKafkaLines(logger: EventLogLogger): (entry: LogEntry) => void {
  const warnedAt = new Map<string, number>()

  const isDue = (message: string): boolean => {
    const now = performance.now()
    if (now - (warnedAt.get(message) ?? -Infinity) < repeatMsMin) return false
    if (warnedAt.size >= rememberedMax) warnedAt.clear()
    warnedAt.set(message, now)
    return true
  }

  return ({ level, namespace, log }) => {
    const { message, timestamp: _, logger: __, stack: ___, ...fields } = log
    const line = { kafkajs: namespace, ...fields }
    const isWarning = level === logLevel.ERROR || level === logLevel.WARN
    if (isWarning && isDue(message)) logger.warn(line, message)
    else logger.debug(line, message)
  }
}
