import { type BlockAtOffset, blockOfLines, splitLines } from '@sluice/event-log/block-lines'
import { tablePartitionOf } from '@sluice/event-store/insert/table-partition'
import { sleep } from '@sluice/runtime/sleep'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** Partitions of the table in one statement while live rows arrive. Each partition adds 20 to 50 ms to an insert. */
const tablePartitionsMax = 8
/** Rows of one statement while live rows arrive. */
const rowsMax = 20_000
/**
 * While live rows arrive, old rows take a quarter of the time: the pause after a statement is this many times as long
 * as the statement.
 */
const pauseFactor = 3
/**
 * Blocks that have waited this long are stored without such pauses, so that old rows are readable within five minutes.
 */
const waitMsMax = 240_000
/**
 * The minimum pause after every statement. It is longer than the delay after which a refused insert of the live log is
 * retried (locked-insert.ts), so that the live insert runs between two statements.
 */
const gapMs = 250

/**
 * Keeps old rows from delaying live ones, by one rule for all partitions of this process. The batches of the partitions
 * are stored one after the other. While live rows arrive, the statements are small and have pauses in between;
 * otherwise they run as fast as possible.
 */
export interface BackfillPace {
  /** Resolves when the caller's batch may be taken, to the function that ends the caller's turn. */
  turn(): Promise<() => void>
  /**
   * Yields the blocks of each statement when the statement may run, until every row was yielded. Throws the reason of
   * `signal` when that aborts earlier.
   */
  statements(
    blocks: readonly BlockAtOffset[],
    batch: { oldestAppendedAt: number; signal: AbortSignal },
  ): AsyncGenerator<readonly BlockAtOffset[]>
  /** Runs a request to ClickHouse; its duration determines the next pause. */
  measured: <T>(work: () => Promise<T>) => Promise<T>
}

/** `isLive` returns whether live rows arrive; `clock` tells how long blocks have waited. */
export function backfillPace(isLive: () => Promise<boolean>, clock: Pick<SynchronizedClock, 'now'>): BackfillPace {
  let lastTurn: Promise<undefined> = Promise.resolve(undefined)
  let lastMs = 0
  let endedAt = -Infinity

  function pauseMs(isLiveNow: boolean, oldestAppendedAt: number): number {
    const leftMs = oldestAppendedAt + waitMsMax - clock.now()
    const wantedMs = isLiveNow ? Math.min(pauseFactor * lastMs, leftMs) : 0
    return Math.max(0, endedAt + Math.max(gapMs, wantedMs) - performance.now())
  }

  return {
    async turn() {
      const ended = Promise.withResolvers<undefined>()
      const before = lastTurn
      lastTurn = ended.promise
      await before
      return () => ended.resolve(undefined)
    },
    async *statements(blocks, { oldestAppendedAt, signal }) {
      /** The remaining rows, by partition of the table; undefined while no statement was limited. */
      let rest: RowsByTablePartition | undefined
      while (rest === undefined || rest.size > 0) {
        const isLiveNow = await isLive()
        await sleep(pauseMs(isLiveNow, oldestAppendedAt), signal)
        signal.throwIfAborted()
        if (!isLiveNow) {
          yield rest === undefined ? blocks : takeRows(rest, { tablePartitions: Infinity, rows: Infinity })
          return
        }
        rest ??= groupByTablePartition(blocks)
        yield takeRows(rest, { tablePartitions: tablePartitionsMax, rows: rowsMax })
      }
    },
    measured: async (work) => {
      const startedAt = performance.now()
      try {
        return await work()
      } finally {
        endedAt = performance.now()
        lastMs = endedAt - startedAt
      }
    },
  }
}

interface Row {
  block: BlockAtOffset
  line: Buffer
}

type RowsByTablePartition = Map<number, Row[]>

function groupByTablePartition(blocks: readonly BlockAtOffset[]): RowsByTablePartition {
  const groups: RowsByTablePartition = new Map()
  for (const block of blocks) {
    for (const line of splitLines(block)) {
      const partition = tablePartitionOf(timestampOf(line))
      const rows = groups.get(partition)
      if (rows) rows.push({ block, line })
      else groups.set(partition, [{ block, line }])
    }
  }
  return groups
}

/** Removes rows of some partitions from `groups`, and returns them as parts of their blocks. */
function takeRows(groups: RowsByTablePartition, limits: { tablePartitions: number; rows: number }): BlockAtOffset[] {
  const taken: Row[] = []
  let partitions = 0
  for (const [partition, rows] of groups) {
    if (partitions === limits.tablePartitions || taken.length >= limits.rows) break
    partitions++
    const count = Math.min(rows.length, limits.rows - taken.length)
    for (const row of rows.slice(0, count)) taken.push(row)
    if (count === rows.length) groups.delete(partition)
    else groups.set(partition, rows.slice(count))
  }
  const lines = Map.groupBy(taken, ({ block }) => block)
  return [...lines].map(([block, rows]) =>
    blockOfLines(
      rows.map(({ line }) => line),
      block,
    ),
  )
}

const timestampField = Buffer.from('"timestamp":')

/**
 * The timestamp of a row, NaN when it has none. It only decides which rows share a statement, so the line is not
 * parsed. A property with this name is skipped, because its value is a string. Other texts can't match, because quotes
 * within strings are escaped.
 */
function timestampOf(line: Buffer): number {
  for (let at = line.indexOf(timestampField); at !== -1; at = line.indexOf(timestampField, at + 1)) {
    const start = at + timestampField.length
    const value = Number.parseInt(line.toString('latin1', start, start + timestampLengthMax), 10)
    if (!Number.isNaN(value)) return value
  }
  return NaN
}

/** Characters of a time in Unix ms, including its sign, sufficient for thousands of years. */
const timestampLengthMax = 16
