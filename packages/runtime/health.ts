import { errorCode } from '@sluice/contracts/errors'
import { withDeadline } from './deadline.ts'

/** One thing that a service needs, or would like to have. */
export interface ReadyCheck {
  /** What is named when it is away: `postgres`, `clickhouse`, `log`. */
  name: string
  /** False: without it the service still does part of its job, and says `degraded`. */
  required: boolean
  check: () => Promise<void>
}

export interface Readiness {
  ready: boolean
  /** Required things that are away, with the reason. */
  missing: Record<string, string>
  /** Other things that are away, with the reason. */
  degraded: Record<string, string>
}

const defaultTimeoutMs = 2_000

/** Asks all checks at once; one that does not answer within `timeoutMs` counts as away. Never rejects. */
export async function readiness(checks: readonly ReadyCheck[], timeoutMs = defaultTimeoutMs): Promise<Readiness> {
  const missing: Record<string, string> = {}
  const degraded: Record<string, string> = {}
  await Promise.all(
    checks.map(async ({ name, required, check }) => {
      try {
        await withDeadline(check(), timeoutMs, () => new Error(`no answer within ${timeoutMs} ms`))
      } catch (error) {
        ;(required ? missing : degraded)[name] = reason(error)
      }
    }),
  )
  return { ready: Object.keys(missing).length === 0, missing, degraded }
}

/** Short and without addresses or credentials: /readyz may be public. */
function reason(error: unknown): string {
  const code = errorCode(error)
  if (code !== undefined) return code
  return error instanceof Error && error.message.startsWith('no answer') ? error.message : 'does not answer'
}
