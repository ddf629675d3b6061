/**
 * Memory that the consumers of a process may hold in blocks: blocks that wait for their batch, in the form in which the
 * log stores them, and decompressed blocks of uncommitted batches. A claim may read more while it holds less than the
 * rest of the budget, so N busy claims get 1/(N+1) each, and a single one gets half. A claim that holds nothing may
 * always read one piece (`pieceBytes`), so that no claim waits for stalled ones. Together, all claims hold at most 1.5
 * times the budget.
 */
export interface ReadBudget {
  /**
   * Bytes of one read from one of a log's `partitions`. One piece for each partition of each consumer takes at most
   * half of the budget.
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
  /** Bytes of the budget that no claim holds. Negative after reads that returned more bytes than expected. */
  free(): number
  /** Releases everything. */
  close(): void
}

/** Memory of a block in addition to its payload, for objects and buffers. It matters because payloads may be small. */
export const blockOverheadBytes = 1024

/** Upper bound of a read. Larger reads would not make batches larger. */
const pieceBytesMax = 16 * 1024 * 1024
/** Lower bound of a read. Smaller reads cost more than they bring. A read returns at least one block. */
const pieceBytesMin = 64 * 1024

/**
 * `bytesMax` is Infinity for claims that only their own limits bound. `consumers` is the number of consumers that share
 * the budget, each with all partitions; 1 by default.
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
