import { unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { BlockHeaders } from '../block.ts'
import { type AppendedBlock, type ClaimFeed, createClaimFeed } from '../consumer/claim-feed.ts'
import { createClaimSet } from '../consumer/claim-set.ts'
import { readBudget } from '../consumer/read-budget.ts'
import type { ConsumerOptions, LogConsumer } from '../log.ts'
import type { SqliteEngine } from './engine.ts'
import type { Group, Member } from './group.ts'
import type { Commit, StoredBlock } from './protocol.ts'

/** A consumer group of the log. */
export interface LocalGroup {
  members: Group
  /** Committed offsets by partition, as last read from the file or committed here. */
  committedOffsets: number[]
}

/** The parts of a log that its consumers use. */
export interface SqliteConsumerContext {
  /** Name of the log in errors. */
  name: string
  /** Number of partitions of the log. */
  partitions: number
  engine: () => Promise<SqliteEngine>
  groupOf: (group: string) => LocalGroup
  /** Updates the offsets of a group from the file. */
  loadCommittedOffsets: (engine: SqliteEngine, group: string) => Promise<readonly number[]>
  /** The offsets after the newest blocks, by partition. */
  ends: () => readonly number[]
  /** Functions that are called after each write, when `ends` have changed. */
  fillers: Set<() => void>
  commit: (commit: Commit) => Promise<void>
  /** The consumers that run. */
  consumers: Set<LogConsumer>
  isClosed: () => boolean
  logger: Pick<Logger, 'debug'>
}

/**
 * A member of a consumer group. All members of the group are in this process. It reads a partition when the partition's
 * claim has space.
 */
export function createSqliteConsumer(context: SqliteConsumerContext, options: ConsumerOptions): LogConsumer {
  const { name, engine, ends, fillers, consumers } = context
  const stopped = Promise.withResolvers<undefined>()
  const group = context.groupOf(options.group)
  let ran: Promise<void> | undefined
  let hasJoined = false

  let hasFailed = false
  const fail = (error: unknown) => {
    hasFailed = true
    stopped.reject(error)
  }
  // `run()` rejects with this promise. Without a handler, a consumer that never ran would cause an unhandled rejection.
  stopped.promise.catch(() => undefined)
  const claims = createClaimSet(options.onClaim, fail, context.logger)

  const begin = (partition: number) => {
    let reading = false
    const fill = () => {
      if (reading || feed.hasEnded() || feed.isFull() || Number(feed.position()) >= (ends()[partition] ?? 0)) return
      reading = true
      read(partition, feed)
        .then(() => {
          reading = false
          fill()
        })
        .catch(fail)
    }
    const feed = createClaimFeed({
      partition,
      startOffset: BigInt(group.committedOffsets[partition] ?? 0),
      limits: options,
      partitions: context.partitions,
      async store(nextOffset) {
        await context.commit({ group: options.group, partition, nextOffset: Number(nextOffset) })
        group.committedOffsets[partition] = Math.max(group.committedOffsets[partition] ?? 0, Number(nextOffset))
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
    options.batchBytesMax,
    (options.budget ?? readBudget(Infinity)).pieceBytes(context.partitions),
  )
  const member: Member = { claims, begin }

  async function read(partition: number, feed: ClaimFeed): Promise<void> {
    const from = Number(feed.position())
    const end = ends()[partition] ?? 0
    const { blocks } = await (await engine()).call('read', { partition, from, bytesMax: pieceBytes })
    feed.push(blocks.map((block) => toAppendedBlock(partition, block)))
    // The blocks were deleted in the meantime: the previous claim's commit succeeded after all, so the blocks were
    // processed.
    if (blocks.length === 0) feed.skipTo(BigInt(end))
  }

  async function run(): Promise<void> {
    const joined = await engine()
    await context.loadCommittedOffsets(joined, options.group)
    void joined.ended.then(fail)
    group.members.join(member)
    hasJoined = true
    try {
      await stopped.promise
    } finally {
      group.members.startLeaving(member)
      await claims.drain({ hasFailed })
      claims.loseAll('the consumer stopped')
      group.members.leave(member)
      consumers.delete(self)
    }
  }

  const self: LogConsumer = {
    run() {
      if (context.isClosed()) return Promise.reject(unavailable(`${name} is closed`))
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
        blocks: Math.max(0, (ends()[feed.claim.partition] ?? 0) - Number(feed.committed())),
        oldestAppendedAt: feed.oldestAppendedAt(),
      })),
  }
  return self
}

function toAppendedBlock(partition: number, { offset, appendedAt, headers, payload }: StoredBlock): AppendedBlock {
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
