import type { LineLogger } from './logger.ts'

const ignore = (): void => undefined

/** A logger that drops its lines, for callers whose failures are thrown. */
export const silentLogger: LineLogger = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
}
