import { settledOrAfter } from '@sluice/runtime/deadline'
import { sum } from '@sluice/runtime/sum'
import type { Block } from '../block.ts'
import { decompressBlock } from '../compression.ts'
import type { Claim, ConsumerOptions, LogBatch } from '../log.ts'
import { blockOverheadBytes, readBudget } from './read-budget.ts'

/** A block as the log stores it: its payload may be compressed. */
export interface AppendedBlock {
  offset: bigint
  /** Unix ms. */
  appendedAt: number
  block: Block
}

export interface ClaimFeedOptions {
  partition: number
  /** Where the claim begins: the group's committed offset. */
  startOffset: bigint
  limits: Pick<ConsumerOptions, 'batchBytesMax' | 'batchRowsMax' | 'lingerMs' | 'budget'>
  /** Number of partitions that may share the budget; 1 by default. */
  partitions?: number
  /** Stores the group's committed offset; rejects when it could not be stored. Calls of one claim never overlap. */
  store: (nextOffset: bigint) => Promise<void>
  /** Called when the buffer was full and has space again. */
  onSpaceAvailable: () => void
}

/** The adapter's side of a claim. The adapter pushes blocks, and the handler reads batches from `claim`. */
export interface ClaimFeed {
  readonly claim: Claim
  /**
   * Buffers blocks, in ascending order of offset. Has no effect after the claim has ended, and no limit: the adapter
   * checks `isFull` before it reads more.
   */
  push(blocks: readonly AppendedBlock[]): void
  /**
   * True while two full batches are buffered or the budget is used up. Then the adapter stops reading until
   * `onSpaceAvailable` is called.
   */
  isFull(): boolean
  /** True once the handler gets no further batch. */
  hasEnded(): boolean
  /** The offset that `push` expects next. */
  position(): bigint
  /** The offset last committed, at first `startOffset`. */
  committed(): bigint
  /** Stores the offset last committed again, after running commits; rejects when it could not be stored. */
  commitAgain(): Promise<void>
  /** Unix ms at which the oldest uncommitted block of this feed was appended. */
  oldestAppendedAt(): number | undefined
  /** Hands out no further batch. The handler may still commit the batch that it has. */
  end(): void
  /** Ends the claim because another member may own the partition: aborts `lost` and refuses commits. */
  lose(reason: string): void
  /** Sets the position to `offset` when the blocks before it were deleted unread. */
  skipTo(offset: bigint): void
}

/** Longest time that a batch waits for space in the budget. */
const budgetWaitMsMax = 2_000

interface BufferedBlock extends AppendedBlock {
  arrivedAt: number
}

/**
 * Collects a partition's blocks into batches by bytes, rows and time, and enforces the order of commits. Both adapters
 * use it, so that batching and back-pressure are the same.
 */
export function createClaimFeed(options: ClaimFeedOptions): ClaimFeed {
  const { partition, limits } = options
  const lost = new AbortController()
  const budget = limits.budget ?? readBudget(Infinity)
  const pieceBytes = budget.pieceBytes(options.partitions ?? 1)
  let buffered: BufferedBlock[] = []
  let bufferedBytes = 0
  let bufferedRows = 0
  let position = options.startOffset
  let committed = options.startOffset
  /**
   * Batches that the handler has got and not committed yet, oldest first. Their blocks are not kept, because a handler
   * may read the whole log and commit nothing.
   */
  const uncommitted: Pick<LogBatch, 'nextOffset' | 'oldestAppendedAt'>[] = []
  let storing: Promise<unknown> = Promise.resolve()
  let hasEnded = false
  let isIterated = false
  let wasFull = false
  let changed = Promise.withResolvers<undefined>()

  const notifyChange = () => {
    changed.resolve(undefined)
    changed = Promise.withResolvers<undefined>()
  }

  /** True while this claim waits for space in the budget. */
  let wasRefused = false
  const account = budget.open(() => {
    if (wasRefused && !wasFull && account.mayRead()) {
      wasRefused = false
      options.onSpaceAvailable()
    }
    notifyChange()
  })

  const hasTwoBatches = () => bufferedBytes >= 2 * limits.batchBytesMax || bufferedRows >= 2 * limits.batchRowsMax

  /**
   * The number of buffered blocks that fit into a batch of `bytesMax`, at least one, and whether the batch is then
   * full.
   */
  const measureNextBatch = (bytesMax = limits.batchBytesMax) => {
    let bytes = 0
    let rows = 0
    let count = 0
    for (const { block } of buffered) {
      bytes += block.headers.bytes
      rows += block.headers.rows
      const blockBytes = block.headers.bytes
      if (count > 0 && (bytes > bytesMax || rows > limits.batchRowsMax)) {
        return { count, bytes: bytes - blockBytes, complete: true }
      }
      count++
      if (bytes >= bytesMax || rows >= limits.batchRowsMax) return { count, bytes, complete: true }
    }
    return { count, bytes, complete: false }
  }

  const takeBatch = (count: number): LogBatch => {
    const entries = buffered.slice(0, count)
    buffered = buffered.slice(count)
    const batch: LogBatch = {
      partition,
      firstOffset: entries[0]?.offset ?? position,
      nextOffset: (entries.at(-1)?.offset ?? position) + 1n,
      // Decompressed only here, because a decompressed block may be a thousand times larger than in the log.
      blocks: entries.map(({ block }) => decompressBlock(block)),
      offsets: entries.map(({ offset }) => offset),
      rows: sum(entries.map(({ block }) => block.headers.rows)),
      bytes: sum(entries.map(({ block }) => block.headers.bytes)),
      oldestAppendedAt: entries.reduce((oldest, entry) => Math.min(oldest, entry.appendedAt), Infinity),
    }
    account.add(batch.bytes + entries.length * blockOverheadBytes - sum(entries.map(({ block }) => heldBytes(block))))
    bufferedBytes -= batch.bytes
    bufferedRows -= batch.rows
    uncommitted.push({ nextOffset: batch.nextOffset, oldestAppendedAt: batch.oldestAppendedAt })
    if (wasFull && bufferedBytes < limits.batchBytesMax && bufferedRows < limits.batchRowsMax) {
      wasFull = false
      if (account.mayRead()) options.onSpaceAvailable()
      else wasRefused = true
    }
    return batch
  }

  const isEnded = () => hasEnded

  async function next(ready: (() => Promise<void>) | undefined): Promise<LogBatch | undefined> {
    let isReady = false
    /** Time at which the budget first refused the batch, by `performance.now()`. */
    let refusedAt: number | undefined
    while (!isEnded()) {
      const first = buffered[0]
      if (first === undefined) {
        await changed.promise
        continue
      }
      const { count, bytes, complete } = measureNextBatch()
      const lingerLeftMs = first.arrivedAt + limits.lingerMs - performance.now()
      if (!complete && lingerLeftMs > 0) {
        await settledOrAfter(changed.promise, lingerLeftMs)
        continue
      }
      // The decompressed batch must fit into the budget. It first waits for other batches to be committed, and is then
      // made smaller.
      const bytesMax = Math.max(pieceBytes, account.free())
      if (isReady) return takeBatch(bytes <= bytesMax ? count : measureNextBatch(bytesMax).count)
      if (bytes > bytesMax) {
        refusedAt ??= performance.now()
        const budgetWaitLeftMs = refusedAt + budgetWaitMsMax - performance.now()
        if (budgetWaitLeftMs > 0) {
          await settledOrAfter(changed.promise, budgetWaitLeftMs)
          continue
        }
      }
      await ready?.()
      isReady = true
    }
    return undefined
  }

  async function* batches({ ready }: { ready?: () => Promise<void> } = {}): AsyncGenerator<LogBatch> {
    if (isIterated) throw new Error(`The batches of partition ${partition} are read already`)
    isIterated = true
    for (;;) {
      const batch = await next(ready)
      if (batch === undefined) return
      yield batch
    }
  }

  const throwIfLost = () => {
    if (lost.signal.aborted) {
      throw new Error(`Partition ${partition} was lost, its offset can't be committed`, { cause: lost.signal.reason })
    }
  }

  async function store(batch: LogBatch): Promise<void> {
    throwIfLost()
    // Batches must be committed in order: a commit of a later batch would skip blocks that are not stored yet.
    if (uncommitted[0]?.nextOffset !== batch.nextOffset)
      throw new Error(`Partition ${partition}: batches are committed once each and in order`)
    await options.store(batch.nextOffset)
    throwIfLost()
    uncommitted.shift()
    committed = batch.nextOffset
    if (!hasEnded) account.add(-(batch.bytes + batch.blocks.length * blockOverheadBytes))
  }

  /** Runs `work` after the commits before it, so that none of them overlap. */
  function inTurn(work: () => Promise<void>): Promise<void> {
    const stored = storing.then(work)
    storing = stored.catch(() => undefined)
    return stored
  }

  const endFeed = () => {
    hasEnded = true
    account.close()
    buffered = []
    bufferedBytes = 0
    bufferedRows = 0
    notifyChange()
  }

  return {
    claim: { partition, lost: lost.signal, batches, commit: (batch) => inTurn(() => store(batch)) },
    push(entries) {
      const last = entries.at(-1)
      if (hasEnded || last === undefined) return
      const arrivedAt = performance.now()
      for (const entry of entries) {
        buffered.push({ ...entry, arrivedAt })
        bufferedBytes += entry.block.headers.bytes
        account.add(heldBytes(entry.block))
        bufferedRows += entry.block.headers.rows
      }
      position = last.offset + 1n
      if (hasTwoBatches()) wasFull = true
      notifyChange()
    },
    isFull: () => {
      if (!wasFull && !account.mayRead()) wasRefused = true
      return wasFull || wasRefused
    },
    hasEnded: isEnded,
    position: () => position,
    committed: () => committed,
    commitAgain: () => inTurn(() => options.store(committed)),
    oldestAppendedAt: () => uncommitted[0]?.oldestAppendedAt ?? buffered[0]?.appendedAt,
    end: endFeed,
    lose(reason) {
      if (lost.signal.aborted) return
      lost.abort(new Error(reason))
      endFeed()
    },
    skipTo(offset) {
      position = offset
      if (uncommitted.length === 0 && buffered.length === 0 && committed < offset) committed = offset
    },
  }
}

/** Memory of a block that waits for its batch. */
function heldBytes({ payload }: Block): number {
  return payload.length + blockOverheadBytes
}
