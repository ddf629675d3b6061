import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino'
import manifest from './package.json' with { type: 'json' }
import { redacted } from './redact.ts'
import { activeTraceId, isTracing } from './tracing.ts'

/** Structured JSON lines; one wide line per request and per batch at `info`. */
export type Logger = Pick<
  PinoLogger,
  'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'flush' | 'child' | 'isLevelEnabled'
>

/** The levels of lines; one of them is the least severe that is logged. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** A logger of lines of these levels. */
export type LineLogger = Pick<Logger, LogLevel>

export interface LoggerOptions {
  service: string
  level: LogLevel
  /** Defaults to standard output. */
  destination?: DestinationStream
  /** Called for each line that is dropped because standard output does not take lines, or not fast enough. */
  onDropped?: () => void
}

/** Lines that standard output has not taken yet, some 30,000; further lines are dropped. */
const bufferBytesMax = 8 * 1024 * 1024

/**
 * Creates a logger. Tracing, the only global part, must be started before. Lines are written in blocks (within 100 ms),
 * because a write per request would cost the gateway more than the request does; `flush` is called before the process
 * ends.
 */
export function createLogger({ service, level, destination, onDropped }: LoggerOptions): Logger {
  return pino(
    {
      level,
      base: { service, version: manifest.version },
      ...(isTracing() && { mixin: traceFields }),
      timestamp: () => `,"time":${Date.now()}`,
      formatters: { level: (label) => ({ level: label }) },
      // A second line of defence: no field of these names is ever logged on purpose.
      redact: {
        paths: ['api_key', 'authorization', 'cookie', 'password'].flatMap((name) => [name, `*.${name}`]),
        censor: redacted,
      },
    },
    destination ?? standardOutput(onDropped),
  )
}

/** Added to each line that is written within a span. */
function traceFields(): { trace_id?: string } {
  const id = activeTraceId()
  return id === undefined ? {} : { trace_id: id }
}

function standardOutput(onDropped: (() => void) | undefined): DestinationStream {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: 8_192,
    periodicFlush: 100,
    maxLength: bufferBytesMax,
  })
  if (onDropped) output.on('drop', onDropped)
  // Lines whose write fails (full disk, closed terminal, broken pipe) stay buffered, and are written again within 100 ms.
  // pino's own listener would let such an error end the process, or end all output without counting lines.
  output.removeAllListeners('error').on('error', () => undefined)
  const flushSync = output.flushSync.bind(output)
  output.flushSync = () => {
    try {
      flushSync()
    } catch {
      // pino calls this while the process exits. The lines cannot be written, and its exit code should stay as it is.
    }
  }
  return output
}
