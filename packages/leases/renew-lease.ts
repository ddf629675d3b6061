import type { Clock } from '@sluice/runtime/clock'
import { isRetryable } from '@sluice/runtime/errors'
import { isAborted } from '@sluice/runtime/is-aborted'
import { type LeaseKey, type LeaseTable, leaseWorkMsMax } from './lease-table.ts'

const renewMs = 10_000
const retryMs = 1_000

/**
 * Renews a lease, which was taken at `takenAt`, every 10 s until `ended` aborts; the promise is then undefined.
 * Otherwise it says why the work has to be aborted: `expired`, because no renewal has succeeded for 25 s. Failures that
 * are not retryable reject.
 */
export async function renewLease(
  table: Pick<LeaseTable<unknown>, 'renew'>,
  key: LeaseKey,
  { clock, takenAt, ended }: { clock: Clock; takenAt: number; ended: AbortSignal },
): Promise<'lost' | 'cancelled' | 'expired' | undefined> {
  let expiresAt = takenAt + leaseWorkMsMax
  let renewAt = takenAt + renewMs
  for (;;) {
    await clock.sleep(Math.max(0, Math.min(renewAt, expiresAt) - clock.now()), ended)
    if (isAborted(ended)) return undefined
    // The lease lasts from before the request, however long the response takes.
    const now = clock.now()
    if (now >= expiresAt) return 'expired'
    const state = await renewOnce(now)
    if (isAborted(ended)) return undefined
    if (state === 'lost' || state === 'cancelled') return state
    if (state === 'held') expiresAt = now + leaseWorkMsMax
    renewAt = state === 'held' ? now + renewMs : clock.now() + retryMs
  }

  /** Undefined: Postgres is unavailable, or does not answer before the lease expires. */
  async function renewOnce(now: number): Promise<'held' | 'lost' | 'cancelled' | undefined> {
    const answered = new AbortController()
    const renewal = table.renew(key, now).catch((error: unknown) => {
      if (isRetryable(error)) return undefined
      throw error
    })
    try {
      const timeout = clock.sleep(expiresAt - now, AbortSignal.any([ended, answered.signal])).then(() => undefined)
      return await Promise.race([renewal, timeout])
    } finally {
      answered.abort()
      // A response that comes later is ignored.
      renewal.catch(() => undefined)
    }
  }
}
