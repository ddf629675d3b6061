import { withDeadline } from './deadline.ts'
import { errorCode } from './errors.ts'

/** One dependency of a service. */
export interface ReadyCheck {
  /** Name in the report when the dependency is unavailable: `postgres`, `clickhouse`, `log`. */
  name: string
  /** False: the service does part of its work without the dependency and reports `degraded`. */
  required: boolean
  check: () => Promise<void>
}

/** The state of a service for `/readyz`: its required dependencies that are missing, and the others. */
export interface Readiness {
  ready: boolean
  /** Required dependencies that are unavailable, with the reason. */
  missing: Record<string, string>
  /** Other dependencies that are unavailable, with the reason. */
  degraded: Record<string, string>
}

/** The failure of a check whose message `/readyz` may show: it has no address and no credential. */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

const defaultTimeoutMs = 2_000

/** Runs all checks at once; one that has not settled within `timeoutMs` has failed. Never rejects. */
export async function readiness(checks: readonly ReadyCheck[], timeoutMs = defaultTimeoutMs): Promise<Readiness> {
  const missing: Record<string, string> = {}
  const degraded: Record<string, string> = {}
  await Promise.all(
    checks.map(async ({ name, required, check }) => {
      try {
        await withDeadline(check(), timeoutMs, () => new NotReady(`no answer within ${timeoutMs} ms`))
      } catch (error) {
        ;(required ? missing : degraded)[name] = describeFailure(error)
      }
    }),
  )
  return { ready: Object.keys(missing).length === 0, missing, degraded }
}

/** The failure in a few words, without addresses or credentials: /readyz may be public. */
function describeFailure(error: unknown): string {
  return error instanceof NotReady ? error.message : (errorCode(error) ?? 'does not answer')
}
