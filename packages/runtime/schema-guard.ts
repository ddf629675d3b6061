import { AppError, isRetryable } from './errors.ts'
import type { Logger } from './logger.ts'
import { startupTask } from './startup-task.ts'
import { type Component, FatalError } from './supervisor.ts'

const defaultRetryMs = 1_000

/**
 * Creates the component that keeps a service from working on a schema that its build can't work with. `check` rejects
 * when the schema is wrong. The component then throws a FatalError, which fails the start or ends the running service.
 * While the engine is unavailable, the service starts nevertheless: it may serve from caches, and `/readyz` names the
 * engine. The schema is checked as soon as the engine answers. An engine that refuses the service, for example its
 * password, is a FatalError too.
 */
export function schemaGuard(
  engine: string,
  check: () => Promise<void>,
  logger: Pick<Logger, 'warn'>,
  retryMs = defaultRetryMs,
): Component {
  return startupTask({
    name: `schema of ${engine}`,
    attempt: async () => {
      try {
        await check()
      } catch (error) {
        if (isRetryable(error) && !error.needsOperator) throw error
        throw new FatalError(error instanceof AppError ? error.internal : String(error), { cause: error })
      }
    },
    retryMs,
    onUnavailable: () => {
      logger.warn({ engine }, 'engine unavailable, schema check deferred')
    },
  })
}
