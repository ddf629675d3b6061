import { SluiceError } from '@sluice/contracts/errors'
import type { Logger } from './logger.ts'
import { type Component, FatalError, pause } from './supervisor.ts'

const defaultRetryMs = 1_000

/**
 * Keeps a service from working on a schema that is not its build's. With the engine there, a wrong schema fails the
 * start; with the engine away the service starts (it may answer from caches, and says what is missing in /readyz)
 * and the check is made as soon as the engine answers.
 */
export function schemaGuard(
  name: string,
  check: () => Promise<void>,
  logger: Logger,
  retryMs = defaultRetryMs,
): Component {
  let passed = false

  /** Throws FatalError on a wrong schema; false while the engine is away. */
  async function attempt(): Promise<boolean> {
    try {
      await check()
      return true
    } catch (error) {
      if (error instanceof SluiceError && error.retryable) return false
      throw new FatalError(error instanceof SluiceError ? error.internal : String(error), { cause: error })
    }
  }

  return {
    name: `schema of ${name}`,
    start: async () => {
      passed = await attempt()
      if (!passed) logger.warn({ engine: name }, 'engine does not answer yet, its schema is checked when it does')
    },
    run: async (signal) => {
      while (!passed) {
        await pause(retryMs, signal)
        if (signal.aborted) return
        passed = await attempt()
      }
    },
  }
}
