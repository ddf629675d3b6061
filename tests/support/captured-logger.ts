import { createLogger, type Logger } from '@sluice/runtime/logger'

export interface CapturedLogger {
  logger: Logger
  /** Everything that was logged, as it would stand on standard output. */
  text: () => string
  /** The same, line by line. */
  lines: () => Record<string, unknown>[]
}

/** A real logger that writes into memory, all levels. */
export function capturedLogger(): CapturedLogger {
  const chunks: string[] = []
  const destination = {
    write: (chunk: string) => chunks.push(chunk),
  }
  const text = (): string => chunks.join('')
  return {
    logger: createLogger({ service: 'test', level: 'debug', destination }),
    text,
    lines: () =>
      text()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  }
}
