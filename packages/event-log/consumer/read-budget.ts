/**
 * Memory that the consumers of a process may hold in blocks: those that wait for their batch, as they are in the log,
 * and those of batches that are not committed, decompressed. A claim may read on while it holds less than what is left
 * of the budget, so that N busy claims get 1/(N+1) each, and a lone one half. A claim that holds nothing may always
 * read one piece (`pieceBytes`): no claim waits for others that are stalled. All claims together so hold at most 1.5
 * times the budget.
 */
export interface ReadBudget {
  /**
   * Bytes of one read of one of a log's `partitions`: half of the budget is enough for a piece of each, of all
   * consumers.
   */
  pieceBytes(partitions: number): number
  /** Opens a claim's account; `onReleased` is called whenever any claim has released bytes. */
  open(onReleased: () => void): BudgetAccount
}

/** The memory that one claim uses of the budget. */
export interface BudgetAccount {
  /** Adds the bytes that the claim holds from now on, or releases them when they are negative. */
  add(bytes: number): void
  mayRead(): boolean
  /** Bytes of the budget that no claim holds; negative after reads that brought more than expected. */
  free(): number
  /** Releases everything. */
  close(): void
}

/** Memory of a block beside its payload, for objects and buffers: payloads may be small. */
export const blockOverheadBytes = 1024

/** Upper bound of a read: larger ones would not make batches larger. */
const pieceBytesMax = 16 * 1024 * 1024
/** Lower bound of a read: smaller ones are not worth their cost. A read returns at least one block. */
const pieceBytesMin = 64 * 1024

/**
 * `bytesMax` is Infinity for claims that are bounded by their own limits only. `consumers` with as many partitions each
 * may share the budget, 1 by default.
 */
export function readBudget(bytesMax: number, { consumers = 1 }: { consumers?: number } = {}): ReadBudget {
  const accounts = new Set<() => void>()
  let held = 0
  return {
    pieceBytes: (partitions) => {
      const claims = consumers * Math.max(1, partitions)
      return Math.round(Math.min(pieceBytesMax, Math.max(pieceBytesMin, bytesMax / (2 * claims))))
    },
    open(onReleased) {
      let own = 0
      accounts.add(onReleased)
      const add = (bytes: number): void => {
        own += bytes
        held += bytes
        if (bytes < 0) for (const notify of [...accounts]) notify()
      }
      return {
        add,
        mayRead: () => own <= 0 || own < bytesMax - held,
        free: () => bytesMax - held,
        close() {
          accounts.delete(onReleased)
          add(-own)
        },
      }
    },
  }
}
