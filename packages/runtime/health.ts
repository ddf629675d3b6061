import { withDeadline } from './deadline.ts'
import { AppError, errorCode, internalMessage } from './errors.ts'

/** One dependency of a service. */
export interface ReadyCheck {
  /** Name in the report when the dependency is unavailable: `postgres`, `clickhouse`, `log`. */
  name: string
  /** False: the service does part of its work without the dependency and reports `degraded`. */
  required: boolean
  check: () => Promise<void>
}

/** The state of a service for `/readyz`: it is ready when nothing is missing. */
export interface Readiness {
  /** Required dependencies that are unavailable, with the reason. */
  missing: Readonly<Record<string, string>>
  /** Other dependencies that are unavailable, with the reason. */
  degraded: Readonly<Record<string, string>>
}

/** The failure of a check whose message `/readyz` may show: it has no address and no credential. */
export class NotReadyError extends Error {
  override readonly name = 'NotReadyError'
}

/**
 * A check of a dependency that is required until it has passed once. A service that never reached the dependency may
 * have a wrong address or wrong credentials. It stays not ready, so that a rollout does not replace working processes
 * by it. After the first pass, an outage leaves the service ready, because it still does part of its work.
 */
export function requiredUntilPassed({ name, check }: Pick<ReadyCheck, 'name' | 'check'>): ReadyCheck {
  let passed = false
  return {
    name,
    get required() {
      return !passed
    },
    async check() {
      await check()
      passed = true
    },
  }
}

const defaultTimeoutMs = 2_000

/** Called with the name of each check that failed, and the whole reason, for the log. */
type OnFailure = (name: string, reason: string) => void

/** Runs all checks at once; one that has not settled within `timeoutMs` has failed. Never rejects. */
export async function readiness(
  checks: readonly ReadyCheck[],
  { timeoutMs = defaultTimeoutMs, onFailure }: { timeoutMs?: number; onFailure?: OnFailure } = {},
): Promise<Readiness> {
  const missing: Record<string, string> = {}
  const degraded: Record<string, string> = {}
  await Promise.all(
    checks.map(async ({ name, required, check }) => {
      try {
        await withDeadline(check(), timeoutMs, () => new NotReadyError(`no answer within ${timeoutMs} ms`))
      } catch (error) {
        ;(required ? missing : degraded)[name] = failureName(error)
        onFailure?.(name, internalMessage(error))
      }
    }),
  )
  return { missing, degraded }
}

/** Names of failures: `ECONNREFUSED`, `28P01` of Postgres, `AUTHENTICATION_FAILED` of ClickHouse. */
const failureNameForm = /^[A-Z\d][A-Za-z\d_]+$/

/**
 * The failure in a few words, without addresses or credentials, because /readyz may be public: the name that it or one
 * of its causes has, else `does not answer`, or the text of `NotReadyError`.
 */
export function failureName(error: unknown): string {
  if (error instanceof NotReadyError) return error.message
  if (typeof error !== 'object' || error === null) return 'does not answer'
  const names = [!(error instanceof AppError) && 'type' in error && error.type, errorCode(error)]
  const name = names.find((each) => typeof each === 'string' && failureNameForm.test(each))
  if (typeof name === 'string') return name
  return 'cause' in error ? failureName(error.cause) : 'does not answer'
}
