import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { withDeadline } from '@sluice/runtime/deadline'
import { insertLockCount } from './insert-lock.ts'

/** A request that takes longer has stalled; others must not wait for it. */
const slotMsMax = 2_000

/** A slot that is reserved before its request is known. */
export interface InsertSlot {
  /** Runs `work` in the slot. Further calls wait for other slots. */
  run<T>(work: () => Promise<T>): Promise<T>
  /** Releases the slot if no work has used it. */
  release(): void
}

/**
 * Limits the concurrent requests to ClickHouse to `count`, and to one for each insert lock. The function resolves when
 * both are free, in the order of its calls. A request that hangs releases its slot after 2 s and continues concurrently
 * with the next one, so that a stalled partition never blocks the others.
 */
export function insertSlots(count: number): (partition: number) => Promise<InsertSlot> {
  const shared = slotsOf(count)
  // ClickHouse would refuse a second insert with the same lock, and each retry would send all rows again.
  const ofLocks = Array.from({ length: insertLockCount }, () => slotsOf(1))

  return async (partition) => {
    const ofLock = await ofLocks[partition % insertLockCount]?.()
    const slot = await shared()
    return {
      run: (work) => (ofLock ? ofLock.run(() => slot.run(work)) : slot.run(work)),
      release: () => {
        slot.release()
        ofLock?.release()
      },
    }
  }
}

function slotsOf(count: number): () => Promise<InsertSlot> {
  const slots = concurrencyLimit(count)

  async function reserve(): Promise<InsertSlot> {
    const free = Promise.withResolvers<undefined>()
    const ended = Promise.withResolvers<undefined>()
    const end = (): void => ended.resolve(undefined)
    void slots(async () => {
      free.resolve(undefined)
      await withDeadline(ended.promise, slotMsMax, () => new Error('the slot is held for too long')).catch(
        () => undefined,
      )
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
