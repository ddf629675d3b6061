import type { Logger } from './logger.ts'

/** Something long-lived, with a name. At least one of the three is there. */
export interface Component {
  name: string
  /** Opens it; the next component starts when this resolves. A rejection fails the service's start. */
  start?: () => Promise<void>
  /**
   * Its work, until `signal` aborts; then it finishes what it has taken and resolves. When it rejects before that, it
   * is run again after a pause (1 s, doubling to 30 s, 1 s again once it ran for 30 s) and named in `failures`
   * meanwhile; its siblings go on.
   */
  run?: (signal: AbortSignal) => Promise<void>
  /** Closes it, after `run` has settled. */
  stop?: () => Promise<void>
}

/** Thrown by a component that no retry can help, e.g. on a wrong schema: the service stops. */
export class FatalError extends Error {
  override readonly name = 'FatalError'
}

export interface Supervisor {
  /** Starts all in order. On a failure stops what was started, then throws. */
  start(): Promise<void>
  /** Stops all in reverse order; each may take what the ones after it hold. Never rejects: failures are logged. */
  stop(): Promise<void>
  /** Components whose `run` failed and which wait for their next try. */
  failures(): readonly string[]
  /** Resolves with the error once a running component throws FatalError. */
  readonly fatal: Promise<FatalError>
}

/** Pauses before a failed component runs again, in ms. */
export interface Pauses {
  firstMs: number
  longestMs: number
}

const defaultPauses: Pauses = { firstMs: 1_000, longestMs: 30_000 }

export function supervise(
  components: readonly Component[],
  logger: Logger,
  { firstMs, longestMs }: Pauses = defaultPauses,
): Supervisor {
  const running: { component: Component; abort: AbortController; done: Promise<void> }[] = []
  const failed = new Set<string>()
  const { promise: fatal, resolve: onFatal } = Promise.withResolvers<FatalError>()

  async function keepRunning(
    component: Component,
    run: NonNullable<Component['run']>,
    signal: AbortSignal,
  ): Promise<void> {
    for (let pauseMs = firstMs; !signal.aborted; pauseMs = Math.min(pauseMs * 2, longestMs)) {
      const startedAt = performance.now()
      try {
        await run(signal)
        return
      } catch (error) {
        if (error instanceof FatalError) {
          onFatal(error)
          return
        }
        if (isAborted(signal)) {
          logger.error({ err: error, component: component.name }, 'component failed while stopping')
          return
        }
        // It had recovered: this is another failure, not the next try's.
        if (performance.now() - startedAt > longestMs) pauseMs = firstMs
        failed.add(component.name)
        logger.error(
          { err: error, component: component.name, retry_in_ms: pauseMs },
          'component failed, it is run again',
        )
      }
      await pause(pauseMs, signal)
      failed.delete(component.name)
    }
  }

  async function stop(): Promise<void> {
    for (const { component, abort, done } of running.splice(0).reverse()) {
      abort.abort()
      await done
      try {
        await component.stop?.()
      } catch (error) {
        logger.error({ err: error, component: component.name }, 'component failed to stop')
      }
    }
  }

  return {
    fatal,
    failures: () => [...failed],
    stop,
    start: async () => {
      for (const component of components) {
        try {
          await component.start?.()
        } catch (error) {
          await stop()
          throw error
        }
        const abort = new AbortController()
        const done = component.run ? keepRunning(component, component.run, abort.signal) : Promise.resolve()
        running.push({ component, abort, done })
      }
    },
  }
}

/** A call, so that the compiler does not take the answer from before an await for granted. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted
}

/** A client that opens by itself and is closed after everything that uses it. */
export function closing(name: string, client: { close: () => Promise<void> }): Component {
  return { name, stop: () => client.close() }
}

/** Resolves after `ms`, or at once when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
}
