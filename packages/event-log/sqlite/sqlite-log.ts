import { withDeadline } from '@sluice/runtime/deadline'
import { unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { BlockHeaders } from '../block.ts'
import { compressBlocks } from '../compression.ts'
import { type ClaimFeed, createClaimFeed, type LogEntry } from '../consumer/claim-feed.ts'
import { createClaimSet } from '../consumer/claim-set.ts'
import { readBudget } from '../consumer/read-budget.ts'
import type { ConsumerOptions, EventLog, LogConsumer } from '../log.ts'
import { type SqliteEngine, startSqliteEngine } from './engine.ts'
import { createGroup, type Group, type Member } from './group.ts'
import type { StoredBlock } from './protocol.ts'
import { createSqliteWrites } from './writes.ts'

const checkTimeoutMs = 2000

export interface SqliteLogOptions {
  logger: Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>
  /** Number of partitions of a new log; an existing one keeps its own. Default 4. */
  partitions?: number
  /**
   * Limit of the file in bytes (without its WAL of up to about 40 MiB): beyond it publishes throw AppError
   * `unavailable`, as on a full disk. Default: none.
   */
  fileBytesMax?: number
  /**
   * Publishes throw AppError `unavailable` while disk and file together have fewer free bytes. Must be twice a full WAL,
   * or commits would fail as well and nothing could be deleted any more. Default 128 MiB.
   */
  freeBytesMin?: number
  /** Blocks that are older are deleted when the log is opened, read or not. Default: blocks wait for their readers. */
  retentionMs?: number
  /** Called with each engine that is started, for tests that end its thread. */
  onEngine?: (engine: SqliteEngine) => void
}

interface GroupState {
  members: Group
  /** Committed positions by partition, as last read from the file or committed here. */
  positions: number[]
}

/**
 * The event log in a folder of this machine. One process at a time: its consumers and its producers share the instance.
 * A block is kept until every group that ever joined has committed past it, or for `retentionMs`; its space is then reused, not returned to the
 * disk. Rejects when the folder can't be used or another process has locked it.
 */
export async function openSqliteLog(dir: string, options: SqliteLogOptions): Promise<EventLog> {
  const { logger } = options
  const name = `The event log in ${dir}`
  const consumers = new Set<LogConsumer>()
  const groups = new Map<string, GroupState>()
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
      freeBytesMin: options.freeBytesMin ?? 128 * 1024 * 1024,
      retentionMs: options.retentionMs,
    })
    ends = engine.opened.ends
    options.onEngine?.(engine)
    void engine.ended.then((reason) => {
      running = undefined
      if (closing === undefined) logger.error({ err: reason, dir }, 'the thread of the event log ended')
    })
    return engine
  }

  /** The running thread; after one that ended, the next call starts another. */
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
  const writes = createSqliteWrites(name, engine, (next) => {
    ends = next
    for (const wake of fillers) wake()
  })
  logger.info({ dir, id: opened.id, partitions: opened.partitions }, 'event log opened')

  const groupOf = (name: string): GroupState => {
    const known = groups.get(name) ?? { members: createGroup(opened.partitions), positions: [] }
    groups.set(name, known)
    return known
  }

  async function loadPositions(running: SqliteEngine, name: string): Promise<readonly number[]> {
    const group = groupOf(name)
    const { positions } = await running.call('join', { group: name })
    group.positions = positions.map((position, partition) => Math.max(position, group.positions[partition] ?? 0))
    return group.positions
  }

  function consumer(consumerOptions: ConsumerOptions): LogConsumer {
    const stopped = Promise.withResolvers<undefined>()
    const group = groupOf(consumerOptions.group)
    let ran: Promise<void> | undefined
    let hasJoined = false

    const fail = (error: unknown) => {
      stopped.reject(error)
    }
    // run() rejects with it; without this handler, a consumer that never ran would cause an unhandled rejection.
    stopped.promise.catch(() => undefined)
    const claims = createClaimSet(consumerOptions.onClaim, fail, logger)

    const begin = (partition: number) => {
      let reading = false
      const fill = () => {
        if (reading || feed.hasEnded() || feed.isFull() || Number(feed.position()) >= (ends[partition] ?? 0)) return
        reading = true
        read(partition, feed, pieceBytes)
          .then(() => {
            reading = false
            fill()
          })
          .catch(fail)
      }
      const feed = createClaimFeed({
        partition,
        startOffset: BigInt(group.positions[partition] ?? 0),
        limits: consumerOptions,
        partitions: opened.partitions,
        async store(nextOffset) {
          await writes.commit({ group: consumerOptions.group, partition, nextOffset: Number(nextOffset) })
          group.positions[partition] = Math.max(group.positions[partition] ?? 0, Number(nextOffset))
        },
        onSpaceAvailable: fill,
      })
      fillers.add(fill)
      feed.claim.lost.addEventListener('abort', () => fillers.delete(fill))
      claims.start(feed)
      fill()
    }

    /** Bytes of one read. */
    const pieceBytes = Math.min(
      consumerOptions.maxBatchBytes,
      (consumerOptions.budget ?? readBudget(Infinity)).pieceBytes(opened.partitions),
    )
    const member: Member = { claims, begin }

    async function run(): Promise<void> {
      const joined = await engine()
      await loadPositions(joined, consumerOptions.group)
      void joined.ended.then(fail)
      group.members.join(member)
      hasJoined = true
      try {
        await stopped.promise
      } finally {
        group.members.startLeaving(member)
        await claims.drain()
        claims.loseAll('the consumer stopped')
        group.members.leave(member)
        consumers.delete(self)
      }
    }

    const self: LogConsumer = {
      run() {
        if (closing !== undefined) return Promise.reject(unavailable(`${name} is closed`))
        if (ran !== undefined) return Promise.reject(new Error('A consumer runs once; make a new one'))
        consumers.add(self)
        ran = run()
        return ran
      },
      async stop() {
        stopped.resolve(undefined)
        await ran?.catch(() => undefined)
      },
      hasJoined: () => hasJoined,
      lag: () =>
        claims.current().map((feed) => ({
          partition: feed.claim.partition,
          committed: feed.committed(),
          blocks: Math.max(0, (ends[feed.claim.partition] ?? 0) - Number(feed.committed())),
          oldestAppendedAt: feed.oldestAppendedAt(),
        })),
    }
    return self
  }

  async function read(partition: number, feed: ClaimFeed, bytesMax: number): Promise<void> {
    const from = Number(feed.position())
    const end = ends[partition] ?? 0
    const { blocks } = await (await engine()).call('read', { partition, from, bytesMax })
    feed.push(blocks.map((block) => toEntry(partition, block)))
    // The blocks were deleted meanwhile: the previous claim's commit succeeded after all, so they have been processed.
    if (blocks.length === 0) feed.skipTo(BigInt(end))
  }

  async function close(): Promise<void> {
    await writes.idle()
    await Promise.all([...consumers].map((each) => each.stop()))
    await writes.idle()
    const last = await running?.catch(() => undefined)
    if (last === undefined) return
    await last.call('close', {}).catch((error: unknown) => {
      logger.warn({ err: error, dir }, 'the event log was not closed cleanly; nothing is lost')
    })
    await last.terminate()
  }

  return {
    partitions: () => Promise.resolve(opened.partitions),
    id: () => Promise.resolve(opened.id),
    async publish(blocks, { timeoutMs }) {
      if (closing !== undefined) throw unavailable(`${name} is closed`)
      for (const { partition } of blocks) {
        if (!(partition in ends)) throw new RangeError(`${name} has no partition ${partition}`)
      }
      await writes.publish(compressBlocks(blocks), timeoutMs)
    },
    consumer,
    async positions(group) {
      if (closing !== undefined) throw unavailable(`${name} is closed`)
      const positions = await loadPositions(await engine(), group)
      return positions.map((next, partition) => ({ partition, next: BigInt(next), end: BigInt(ends[partition] ?? 0) }))
    },
    async replaceGroup(from, to) {
      if (closing !== undefined) throw unavailable(`${name} is closed`)
      await (await engine()).call('replaceGroup', { from, to })
      groups.delete(from)
    },
    async ends() {
      if (closing !== undefined) throw unavailable(`${name} is closed`)
      // `ends` is updated before a publish is acknowledged.
      await engine()
      return ends.map(BigInt)
    },
    async check() {
      if (closing !== undefined) throw unavailable(`${name} is closed`)
      const ping = engine().then((answering) => answering.call('ping', {}))
      await withDeadline(ping, checkTimeoutMs, () => unavailable(`${name} did not answer in ${checkTimeoutMs} ms`))
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

function toEntry(partition: number, { offset, appendedAt, headers, payload }: StoredBlock): LogEntry {
  return {
    offset: BigInt(offset),
    appendedAt,
    block: {
      partition,
      headers: JSON.parse(headers) as BlockHeaders,
      payload: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
    },
  }
}
