import type { ErrorCode, Receipt, SluiceError } from './types.ts'

const warnEveryMs = 60_000

/** Reports an error to the application. Never throws. */
export type Report = (code: ErrorCode, message: string, about?: { count?: number; event?: Receipt }) => void

class ReportedError extends Error implements SluiceError {
  override readonly name = 'SluiceError'
  readonly code: ErrorCode
  readonly count: number
  declare readonly event?: Receipt

  constructor(code: ErrorCode, message: string, { count = 1, event }: { count?: number; event?: Receipt }) {
    super(message)
    this.code = code
    this.count = count
    if (event) this.event = { event_id: event.event_id, timestamp: event.timestamp }
  }
}

/** Calls `onError`. Without it, or when it throws or rejects, emits a process warning, once a minute for each code. */
export function errorReporter(onError: ((error: SluiceError) => unknown) | undefined): Report {
  const warnedAt = new Map<string, number>()
  const warn = (code: string, message: string): void => {
    const now = performance.now()
    if (now - (warnedAt.get(code) ?? -Infinity) < warnEveryMs) return
    warnedAt.set(code, now)
    process.emitWarning(message, { type: 'SluiceWarning', code })
  }
  return (code, message, about = {}) => {
    const error = new ReportedError(code, message, about)
    if (!onError) {
      warn(code, message)
      return
    }
    // A bug in onError must not make track() throw, nor end the application when onError is asynchronous.
    new Promise((resolve) => resolve(onError(error))).catch((thrown: unknown) => {
      warn('on_error', `onError has thrown: ${String(thrown)}; it was told: ${message}`)
    })
  }
}
