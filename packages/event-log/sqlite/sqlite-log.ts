import { withDeadline } from '@sluice/runtime/deadline'
import { unavailable } from '@sluice/runtime/errors'
import { NotReadyError } from '@sluice/runtime/health'
import type { LineLogger } from '@sluice/runtime/logger'
import { compressBlocks } from '../compression.ts'
import type { EventLog, LogConsumer } from '../log.ts'
import { createSqliteConsumer, type LocalGroup, type SqliteConsumerContext } from './consumer.ts'
import { type SqliteEngine, startSqliteEngine } from './engine.ts'
import { createGroup } from './group.ts'
import { createSqliteWrites } from './writes.ts'

const checkTimeoutMs = 2000
const mebibyte = 1024 * 1024

export interface SqliteLogOptions {
  logger: LineLogger
  /** Number of partitions of a new log. An existing log keeps its number. Default 4. */
  partitions?: number
  /**
   * Limit of the file in bytes, without its WAL of up to about 50 MiB. Beyond it, publishes throw AppError
   * `unavailable`, as on a full disk. Default: none.
   */
  fileBytesMax?: number
  /**
   * Publishes throw AppError `unavailable` while disk and file together have fewer free bytes. It must be twice the
   * size of a full WAL: otherwise commits would fail as well, and nothing could be deleted any more. Default 128 MiB.
   */
  freeBytesMin?: number
  /**
   * Older blocks are deleted when the log is opened, even if they were not read. Default: blocks are kept for their
   * readers.
   */
  retentionMs?: number
  /** Time from a deletion of blocks to the removal of their bytes from the files. Default one minute. */
  compactAfterMs?: number
  /**
   * The clock, in Unix ms, by which blocks get the time of their append: the one of those who compare times with it.
   * Default: the machine's.
   */
  now?: () => number
  /** Called with each engine that is started, for tests that end its thread. */
  onEngine?: (engine: SqliteEngine) => void
}

/**
 * The event log in a folder of this machine. Only one process can open it; its consumers and producers share the
 * instance. A block is kept until every group that ever joined, and was not removed, has committed past it, or for
 * `retentionMs`. The bytes of a deleted block are removed from the files within `compactAfterMs`, unless many blocks
 * wait. Rejects when the folder can't be used or another process has locked it.
 */
export async function openSqliteLog(dir: string, options: SqliteLogOptions): Promise<EventLog> {
  const { logger } = options
  const name = `The event log in ${dir}`
  const freeBytesMin = options.freeBytesMin ?? 128 * mebibyte
  const consumers = new Set<LogConsumer>()
  const groups = new Map<string, LocalGroup>()
  /** Called after each write, when `ends` have changed. */
  const fillers = new Set<() => void>()
  let ends: readonly number[] = []
  let closing: Promise<void> | undefined
  let running: Promise<SqliteEngine> | undefined

  async function start(): Promise<SqliteEngine> {
    const engine = await startSqliteEngine({
      dir,
      partitions: options.partitions ?? 4,
      fileBytesMax: options.fileBytesMax,
      freeBytesMin,
      retentionMs: options.retentionMs,
      compactAfterMs: options.compactAfterMs ?? 60_000,
    })
    ends = engine.opened.ends
    options.onEngine?.(engine)
    void engine.ended.then((reason) => {
      running = undefined
      if (closing === undefined)
        logger.error({ err: reason, dir }, 'event log thread exited, the next call restarts it')
    })
    return engine
  }

  /** The running thread. If it has ended, the next call starts another one. */
  const engine = (): Promise<SqliteEngine> => {
    if (running === undefined) {
      const starting = start()
      starting.catch(() => {
        if (running === starting) running = undefined
      })
      running = starting
    }
    return running
  }

  const { opened } = await engine()
  const writes = createSqliteWrites(name, engine, options.now ?? Date.now, (next) => {
    ends = next
    for (const wake of fillers) wake()
  })
  logger.info({ dir, id: opened.id, partitions: opened.partitions }, 'event log opened')

  const groupOf = (name: string): LocalGroup => {
    const known = groups.get(name) ?? { members: createGroup(opened.partitions), committedOffsets: [] }
    groups.set(name, known)
    return known
  }

  async function loadCommittedOffsets(running: SqliteEngine, name: string): Promise<readonly number[]> {
    const group = groupOf(name)
    const { committedOffsets } = await running.call('committedOffsets', { group: name })
    group.committedOffsets = committedOffsets.map((offset, partition) =>
      Math.max(offset, group.committedOffsets[partition] ?? 0),
    )
    return group.committedOffsets
  }

  const consumerContext: SqliteConsumerContext = {
    name,
    partitions: opened.partitions,
    engine,
    groupOf,
    loadCommittedOffsets,
    ends: () => ends,
    fillers,
    commit: (commit) => writes.commit(commit),
    consumers,
    isClosed: () => closing !== undefined,
    logger,
  }

  function requireOpen(): void {
    if (closing !== undefined) throw unavailable(`${name} is closed`)
  }

  async function close(): Promise<void> {
    await writes.idle()
    await Promise.all([...consumers].map((each) => each.stop()))
    await writes.idle()
    const last = await running?.catch(() => undefined)
    if (last === undefined) return
    await last.call('close', {}).catch((error: unknown) => {
      logger.warn({ err: error, dir }, 'event log not closed cleanly, no data is lost')
    })
    await last.terminate()
  }

  return {
    partitions: () => Promise.resolve(opened.partitions),
    id: () => Promise.resolve(opened.id),
    async publish(blocks, { timeoutMs }) {
      requireOpen()
      for (const { partition } of blocks) {
        if (!(partition in ends)) throw new RangeError(`${name} has no partition ${partition}`)
      }
      await writes.publish(compressBlocks(blocks), timeoutMs)
    },
    consumer: (consumerOptions) => createSqliteConsumer(consumerContext, consumerOptions),
    async committedOffsets(group) {
      requireOpen()
      const offsets = await loadCommittedOffsets(await engine(), group)
      return offsets.map((offset, partition) => ({
        partition,
        offset: BigInt(offset),
        endOffset: BigInt(ends[partition] ?? 0),
      }))
    },
    async replaceGroup(from, to) {
      requireOpen()
      await (await engine()).call('replaceGroup', { from, to })
      groups.delete(from)
    },
    async keepOnlyGroup(group) {
      requireOpen()
      await (await engine()).call('keepOnlyGroup', { group })
      for (const each of groups.keys()) if (each !== group) groups.delete(each)
    },
    async endOffsets() {
      requireOpen()
      // `ends` is updated before a publish is acknowledged.
      await engine()
      return ends.map(BigInt)
    },
    async offsetsForTime(time) {
      requireOpen()
      const { offsets } = await (await engine()).call('offsetsForTime', { time })
      return offsets.map(BigInt)
    },
    async check() {
      requireOpen()
      const ping = engine().then((answering) => answering.call('ping', {}))
      const late = () => unavailable(`${name} did not answer in ${checkTimeoutMs} ms`)
      const { hasSpace } = await withDeadline(ping, checkTimeoutMs, late)
      if (!hasSpace) {
        throw new NotReadyError(`the disk of the log has less than ${freeBytesMin / mebibyte} MiB free`)
      }
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}
