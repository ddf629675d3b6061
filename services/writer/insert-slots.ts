import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { withDeadline } from '@sluice/runtime/deadline'

/** A request that takes longer is stalled rather than working; others must not wait for it. */
const slotMsMax = 2_000

/**
 * Limits the concurrent requests to ClickHouse to `count`, in the order of the calls. A request that hangs releases its
 * slot after 2 s and continues beside the next one, so that a stalled partition never blocks the others.
 */
export function insertSlots(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  const slots = concurrencyLimit(count)
  return async <T>(work: () => Promise<T>): Promise<T> => {
    const result = Promise.withResolvers<T>()
    await slots(async () => {
      result.resolve(work())
      await withDeadline(result.promise, slotMsMax, () => new Error('the turn is over')).catch(() => undefined)
    })
    return result.promise
  }
}
