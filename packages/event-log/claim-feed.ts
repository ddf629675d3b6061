import type { Block } from '@sluice/contracts/block'
import { decompressBlock } from './compression.ts'
import type { Claim, ConsumerOptions, LogBatch } from './log.ts'

/** A block as the log holds it: its payload may be compressed. */
export interface LogEntry {
  offset: bigint
  /** Unix ms. */
  appendedAt: number
  block: Block
}

export interface ClaimFeedOptions {
  partition: number
  /** Where the claim begins: the group's committed position. */
  startOffset: bigint
  limits: Pick<ConsumerOptions, 'maxBatchBytes' | 'maxBatchRows' | 'lingerMs'>
  /** Stores the group's position; rejects when it could not. Calls of one claim never overlap. */
  store: (nextOffset: bigint) => Promise<void>
  /** The buffer was full and has room again. */
  onRoom: () => void
}

/** The adapter's side of a claim: blocks go in here, batches come out at `claim`. */
export interface ClaimFeed {
  readonly claim: Claim
  /** Takes blocks in order of offset; ignored once the claim ended. Never refuses: ask `full` before reading more. */
  push(entries: readonly LogEntry[]): void
  /** True while two batches' worth wait for the handler: stop reading, `onRoom` tells when to go on. */
  full(): boolean
  /** True once no further batch will be handed over. */
  ended(): boolean
  /** The offset that `push` expects next. */
  position(): bigint
  /** The position last committed, at first `startOffset`. */
  committed(): bigint
  /** Unix ms at which the oldest uncommitted block known here was appended. */
  oldestAppendedAt(): number | undefined
  /** No further batch; the one under way may still be committed. */
  end(): void
  /** The partition may be another member's from now on: ends, aborts `lost`, refuses commits. */
  lose(reason: string): void
  /** Skips to `offset` when blocks were deleted before they were read; drops what is buffered below it. */
  skipTo(offset: bigint): void
}

interface Waiting extends LogEntry {
  arrivedAt: number
}

/**
 * Collects a partition's blocks into batches by bytes, rows and time, and guards the order of commits.
 * Both adapters use it, so that batching and back-pressure are the same on each.
 */
export function createClaimFeed(options: ClaimFeedOptions): ClaimFeed {
  const { partition, limits } = options
  const lost = new AbortController()
  let waiting: Waiting[] = []
  let waitingBytes = 0
  let waitingRows = 0
  let position = options.startOffset
  let committed = options.startOffset
  /** Handed over and not yet committed, oldest first. */
  const open: LogBatch[] = []
  let storing: Promise<unknown> = Promise.resolve()
  let ended = false
  let iterated = false
  let wasFull = false
  let changed = Promise.withResolvers<undefined>()

  const signal = () => {
    changed.resolve(undefined)
    changed = Promise.withResolvers<undefined>()
  }

  const full = () => waitingBytes >= 2 * limits.maxBatchBytes || waitingRows >= 2 * limits.maxBatchRows

  /** How many waiting blocks make the next batch: as many as fit, at least one; and whether that is all that fits. */
  const measure = () => {
    let bytes = 0
    let rows = 0
    let count = 0
    for (const { block } of waiting) {
      bytes += block.headers.bytes
      rows += block.headers.rows
      if (count > 0 && (bytes > limits.maxBatchBytes || rows > limits.maxBatchRows)) {
        return { count, complete: true }
      }
      count++
      if (bytes >= limits.maxBatchBytes || rows >= limits.maxBatchRows) return { count, complete: true }
    }
    return { count, complete: false }
  }

  const take = (count: number): LogBatch => {
    const entries = waiting.slice(0, count)
    waiting = waiting.slice(count)
    const batch: LogBatch = {
      partition,
      firstOffset: entries[0]?.offset ?? position,
      nextOffset: (entries.at(-1)?.offset ?? position) + 1n,
      // Not before: what is compressed may be a thousand times larger.
      blocks: entries.map(({ block }) => decompressBlock(block)),
      offsets: entries.map(({ offset }) => offset),
      rows: entries.reduce((sum, { block }) => sum + block.headers.rows, 0),
      bytes: entries.reduce((sum, { block }) => sum + block.headers.bytes, 0),
      oldestAppendedAt: entries.reduce((oldest, entry) => Math.min(oldest, entry.appendedAt), Infinity),
    }
    waitingBytes -= batch.bytes
    waitingRows -= batch.rows
    open.push(batch)
    if (wasFull && waitingBytes < limits.maxBatchBytes && waitingRows < limits.maxBatchRows) {
      wasFull = false
      options.onRoom()
    }
    return batch
  }

  const isEnded = () => ended

  async function next(): Promise<LogBatch | undefined> {
    while (!isEnded()) {
      const first = waiting[0]
      if (first === undefined) {
        await changed.promise
        continue
      }
      const { count, complete } = measure()
      const lingerLeftMs = first.arrivedAt + limits.lingerMs - performance.now()
      if (complete || lingerLeftMs <= 0) return take(count)
      await orAfter(changed.promise, lingerLeftMs)
    }
    return undefined
  }

  async function* batches(): AsyncGenerator<LogBatch> {
    if (iterated) throw new Error(`The batches of partition ${partition} are read already`)
    iterated = true
    for (;;) {
      const batch = await next()
      if (batch === undefined) return
      yield batch
    }
  }

  const refuseIfLost = () => {
    if (lost.signal.aborted) {
      throw new Error(`Partition ${partition} was lost, its position can't be committed`, { cause: lost.signal.reason })
    }
  }

  async function store(batch: LogBatch): Promise<void> {
    refuseIfLost()
    // Offsets ascend without a gap: a commit out of turn would skip blocks that nobody wrote.
    if (open[0] !== batch) throw new Error(`Partition ${partition}: batches are committed once each and in order`)
    await options.store(batch.nextOffset)
    refuseIfLost()
    open.shift()
    committed = batch.nextOffset
  }

  function commit(batch: LogBatch): Promise<void> {
    const stored = storing.then(() => store(batch))
    storing = stored.catch(() => undefined)
    return stored
  }

  const finish = () => {
    ended = true
    waiting = []
    waitingBytes = 0
    waitingRows = 0
    signal()
  }

  return {
    claim: { partition, lost: lost.signal, batches, commit },
    push(entries) {
      const last = entries.at(-1)
      if (ended || last === undefined) return
      const arrivedAt = performance.now()
      for (const entry of entries) {
        waiting.push({ ...entry, arrivedAt })
        waitingBytes += entry.block.headers.bytes
        waitingRows += entry.block.headers.rows
      }
      position = last.offset + 1n
      if (full()) wasFull = true
      signal()
    },
    full: () => wasFull,
    ended: isEnded,
    position: () => position,
    committed: () => committed,
    oldestAppendedAt: () => open[0]?.oldestAppendedAt ?? waiting[0]?.appendedAt,
    end: finish,
    lose(reason) {
      if (lost.signal.aborted) return
      lost.abort(new Error(reason))
      finish()
    },
    skipTo(offset) {
      position = offset
      if (open.length === 0 && waiting.length === 0 && committed < offset) committed = offset
    },
  }
}

/** Waits for `event`, at most `ms`, and leaves no timer behind. */
async function orAfter(event: Promise<unknown>, ms: number): Promise<void> {
  const timer = Promise.withResolvers<undefined>()
  const handle = setTimeout(() => {
    timer.resolve(undefined)
  }, Math.ceil(ms))
  try {
    await Promise.race([event, timer.promise])
  } finally {
    clearTimeout(handle)
  }
}
