import type { Clock } from '@sluice/runtime/clock'
import { isRetryable } from '@sluice/runtime/errors'
import { isAborted } from '@sluice/runtime/is-aborted'
import { type LeaseKey, type LeaseTable, leaseWorkMsMax } from './lease-table.ts'

const renewMs = 10_000
const retryMs = 1_000

/**
 * Renews a lease, which was taken at `takenAt` (Unix ms by `clock`), every 10 s until `ended` aborts. Then resolves to
 * undefined. Otherwise it resolves to the reason why the work must be aborted; `expired` means that no renewal has
 * succeeded for 25 s.
 * Rejects after failures that are not retryable.
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
    // The lease is counted from before the request, because the response may take long.
    const now = clock.now()
    if (now >= expiresAt) return 'expired'
    const state = await renewOnce(now)
    if (isAborted(ended)) return undefined
    if (state === 'lost' || state === 'cancelled') return state
    if (state === 'held') expiresAt = now + leaseWorkMsMax
    renewAt = state === 'held' ? now + renewMs : clock.now() + retryMs
  }

  /** Undefined when Postgres is unavailable, or does not answer before the lease expires. */
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
      // A later response is ignored.
      renewal.catch(() => undefined)
    }
  }
}
