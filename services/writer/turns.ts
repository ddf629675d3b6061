import { withDeadline } from '@sluice/runtime/deadline'
import pLimit from 'p-limit'

/** A turn that lasts longer waits rather than works: nobody else must wait for it. */
const turnMsMax = 2_000

/**
 * So many questions to ClickHouse at a time, in the order of asking. One that hangs gives its turn to the next after 2 s
 * and goes on beside it, so that a stuck partition never holds up the others.
 */
export function turns(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  const slots = pLimit(count)
  return async <T>(work: () => Promise<T>): Promise<T> => {
    const result = Promise.withResolvers<T>()
    await slots(async () => {
      result.resolve(work())
      await withDeadline(result.promise, turnMsMax, () => new Error('the turn is over')).catch(() => undefined)
    })
    return result.promise
  }
}
