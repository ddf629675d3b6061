import { withDeadline } from './deadline.ts'
import { isAborted } from './is-aborted.ts'
import type { Logger } from './logger.ts'
import type { RetryDelays } from './retry.ts'
import { sleep } from './sleep.ts'

/** A long-lived part of a service, with at least one of the three functions. */
export interface Component {
  name: string
  /** Stops together with the component before it: neither uses the other, and both take time to stop. */
  stopsWithPrevious?: true
  /** Opens the component; the next one starts when this resolves. A rejection fails the service's start. */
  start?: () => Promise<void>
  /**
   * Works until `signal` aborts, then finishes the running work and resolves. A run that rejects before that is
   * repeated after a delay (1 s, doubling to 30 s; 1 s again once a run lasted 30 s) and the component is named in
   * `failures` meanwhile. The other components continue.
   */
  run?: (signal: AbortSignal) => Promise<void>
  /** Closes the component after `run` has settled. */
  stop?: () => Promise<void>
}

/** Thrown by a component when no retry can help, e.g. on a wrong schema: the service stops. */
export class FatalError extends Error {
  override readonly name = 'FatalError'
}

/** Starts, runs and stops the components of a service. */
export interface Supervisor {
  /**
   * Starts all components in order. After a failure stops those that were started, then throws. If `stop` is called
   * meanwhile, the component that is starting finishes its start, and no other one is started.
   */
  start(): Promise<void>
  /**
   * Stops all components in reverse order, so that each may still use those that were started before it. Components
   * with `stopsWithPrevious` stop at the same time as the one before them. Never rejects: failures are logged.
   */
  stop(): Promise<void>
  /** Names of the components whose `run` failed and has not been repeated yet. */
  failures(): readonly string[]
  /** Resolves with the error once a running component throws FatalError. */
  readonly fatal: Promise<FatalError>
}

interface RunningComponent {
  component: Component
  abort: AbortController
  done: Promise<void>
}

const defaultDelays: RetryDelays = { firstMs: 1_000, longestMs: 30_000 }

/** A supervisor of `components`, none of which is started yet. */
export function supervise(
  components: readonly Component[],
  logger: Logger,
  { firstMs, longestMs }: RetryDelays = defaultDelays,
): Supervisor {
  const running: RunningComponent[] = []
  const failed = new Set<string>()
  let isStopping = false
  /** The promise of the start, during it and afterwards. */
  let starting: Promise<void> = Promise.resolve()
  const { promise: fatal, resolve: resolveFatal } = Promise.withResolvers<FatalError>()

  async function runUntilStopped(
    component: Component,
    run: NonNullable<Component['run']>,
    signal: AbortSignal,
  ): Promise<void> {
    for (let delayMs = firstMs; !signal.aborted; delayMs = Math.min(delayMs * 2, longestMs)) {
      const startedAt = performance.now()
      try {
        await run(signal)
        return
      } catch (error) {
        if (error instanceof FatalError) {
          resolveFatal(error)
          return
        }
        if (isAborted(signal)) {
          logger.error({ err: error, component: component.name }, 'component failed while stopping')
          return
        }
        // The previous run lasted long enough, so this is a new failure and not a repetition.
        if (performance.now() - startedAt > longestMs) delayMs = firstMs
        failed.add(component.name)
        logger.error({ err: error, component: component.name, retry_in_ms: delayMs }, 'component failed, restarting')
      }
      await sleep(delayMs, signal)
      failed.delete(component.name)
    }
  }

  async function startAll(): Promise<void> {
    for (const component of components) {
      if (isStopping) return
      try {
        await component.start?.()
      } catch (error) {
        await stopAll()
        throw error
      }
      const abort = new AbortController()
      const done = component.run ? runUntilStopped(component, component.run, abort.signal) : Promise.resolve()
      running.push({ component, abort, done })
    }
  }

  async function stopAll(): Promise<void> {
    const groups: RunningComponent[][] = []
    for (const each of running.splice(0)) {
      if (each.component.stopsWithPrevious) groups.at(-1)?.push(each)
      else groups.push([each])
    }
    for (const group of groups.reverse()) await Promise.all(group.map(stopOne))
  }

  async function stopOne({ component, abort, done }: RunningComponent): Promise<void> {
    abort.abort()
    await done
    try {
      await component.stop?.()
    } catch (error) {
      logger.error({ err: error, component: component.name }, 'component failed to stop')
    }
  }

  return {
    fatal,
    failures: () => [...failed],
    stop: async () => {
      isStopping = true
      await Promise.allSettled([starting])
      await stopAll()
    },
    start: () => (starting = startAll()),
  }
}

/** Many clients send a disconnect request on close, which may hang. */
const closeTimeoutMs = 1_000

/**
 * A component that closes `client` when the service stops, and waits for at most a second; the client connects by
 * itself.
 */
export function closeOnStop(name: string, client: { close: () => Promise<void> }): Component {
  return {
    name,
    stop: () => withDeadline(client.close(), closeTimeoutMs, () => new Error(`not closed within ${closeTimeoutMs} ms`)),
  }
}
