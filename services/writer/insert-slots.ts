import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { withDeadline } from '@sluice/runtime/deadline'

/** A request that takes longer is stalled rather than working; others must not wait for it. */
const slotMsMax = 2_000

/** A slot that was reserved before it is known for which request. */
export interface InsertSlot {
  /** Runs `work` in the slot; further works wait for slots of their own. */
  run<T>(work: () => Promise<T>): Promise<T>
  /** Frees the slot if no work has used it. */
  release(): void
}

/** Resolves when a slot is free, in the order of the calls. */
export type ReserveSlot = () => Promise<InsertSlot>

/**
 * Limits the concurrent requests to ClickHouse to `count`. A request that hangs releases its slot after 2 s and continues
 * beside the next one, so that a stalled partition never blocks the others.
 */
export function insertSlots(count: number): ReserveSlot {
  const slots = concurrencyLimit(count)

  async function reserve(): Promise<InsertSlot> {
    const free = Promise.withResolvers<undefined>()
    const ended = Promise.withResolvers<undefined>()
    const end = (): void => {
      ended.resolve(undefined)
    }
    void slots(async () => {
      free.resolve(undefined)
      await withDeadline(ended.promise, slotMsMax, () => new Error('the turn is over')).catch(() => undefined)
    })
    await free.promise
    let isUsed = false
    return {
      run: async (work) => {
        if (isUsed) return (await reserve()).run(work)
        isUsed = true
        try {
          return await work()
        } finally {
          end()
        }
      },
      release: () => {
        if (!isUsed) end()
        isUsed = true
      },
    }
  }

  return reserve
}
