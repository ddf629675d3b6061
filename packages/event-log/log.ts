import type { Block } from './block.ts'
import type { ReadBudget } from './consumer/read-budget.ts'

/**
 * The event log: an ordered, durable list of blocks per partition, read by consumer groups.
 * Adapters: kafka/kafka-log.ts (production) and sqlite/sqlite-log.ts (embedded); both pass conformance/conformance.ts.
 */
export interface EventLog {
  /** Number of partitions, constant while the log is open. Rejects while the log can't be reached. */
  partitions(): Promise<number>
  /**
   * Identifies this log among all logs that are written into one ClickHouse: Kafka's cluster id and the topic, or the
   * id that a file log got when it was created. Part of the `query_id` by which ClickHouse runs one insert per lock at
   * a time. `[A-Za-z0-9._-]+`.
   */
  id(): Promise<string>
  /**
   * Appends blocks. Resolves when all of them are durable (fsynced, or acknowledged by all in-sync replicas). After a
   * rejection, some blocks may be durable nevertheless: callers retry, readers deduplicate. Blocks of one call and one
   * partition keep their order; between concurrent calls there is no order. Throws AppError `unavailable` (retryable)
   * when the log is unavailable or `timeoutMs` have passed.
   */
  publish(blocks: readonly Block[], options: PublishOptions): Promise<void>
  /** A member of a consumer group. Nothing is read before `run`. */
  consumer(options: ConsumerOptions): LogConsumer
  /**
   * The group's committed offset in every partition; the group need not have members. Like joining, the call creates
   * the group. Throws AppError `unavailable` while the log is unavailable.
   */
  committedOffsets(group: string): Promise<readonly CommittedOffset[]>
  /**
   * Replaces the group `from` by `to`: `to` gets the committed offsets of `from`, unless `to` has committed an offset
   * in any partition. `to` must not have members. Changes nothing when `from` is unknown or `to` is known, so that it
   * can be repeated. Throws AppError `unavailable` while the log is unavailable.
   */
  replaceGroup(from: string, to: string): Promise<void>
  /**
   * Forgets the groups other than `group` where they would keep blocks from being deleted: a file keeps a block until all
   * groups have read it. Kafka deletes by age and keeps its groups. Throws AppError `unavailable` while the log is
   * unavailable.
   */
  keepOnlyGroup(group: string): Promise<void>
  /**
   * The offsets after the newest blocks, by partition, for the partitions that exist now. Every block that was
   * acknowledged before the call is below them. Throws AppError `unavailable` while the log is unavailable.
   */
  endOffsets(): Promise<readonly bigint[]>
  /**
   * Returns for each partition the offset of the oldest block that was appended at `time` (Unix ms) or later, or the
   * offset after the newest block if there is none. Throws AppError `unavailable` while the log is unavailable.
   */
  offsetsForTime(time: number): Promise<readonly bigint[]>
  /**
   * Resolves when the log answers and takes blocks; rejects with the reason otherwise. For readiness, so it must be cheap.
   */
  check(): Promise<void>
  /** Closes producers, consumers and connections after the running publishes have settled. */
  close(): Promise<void>
}

export interface PublishOptions {
  timeoutMs: number
  /**
   * Called with partitions whose blocks are all durable while blocks of other partitions are not. The others may never
   * be, for example if a partition lacks in-sync replicas. Each partition is reported once. Not called when the last
   * blocks have become durable, or after the publish has settled.
   */
  onDurable?: (partitions: readonly number[]) => void
}

export interface ConsumerOptions {
  /** Members of one group share the partitions; groups of the same name in two logs are independent. */
  group: string
  /**
   * Maximum payload bytes of a batch, unless a single block is larger. A full batch is given to the handler at once.
   */
  batchBytesMax: number
  /** Maximum number of rows of a batch. */
  batchRowsMax: number
  /** Longest time that the first block of a batch waits for further blocks. */
  lingerMs: number
  /** Memory that this consumer shares with other consumers of the process; unlimited by default. */
  budget?: ReadBudget
  /**
   * Called once per claimed partition, after the handler of this member's previous claim on it has settled. It settles
   * when the claim's batches end. A rejection ends `run`, unless the claim was lost: then it ends only the claim, so a
   * handler need not catch the error of a refused commit.
   */
  onClaim: (claim: Claim) => Promise<void>
}

/** A member of a consumer group. */
export interface LogConsumer {
  /** Joins the group and consumes until `stop`; rejects when the consumer failed (the caller may create another). */
  run(): Promise<void>
  /**
   * Hands out no new batches, waits until the claims have settled (including their last commits), and leaves the group.
   * Idempotent.
   */
  stop(): Promise<void>
  /**
   * Whether it has joined its group, now or at an earlier time. It then has its share of the partitions, possibly none.
   * A member that the group has removed joins again by itself.
   */
  hasJoined(): boolean
  /** Consumer lag of each claimed partition at the time of the last fetch. */
  lag(): readonly PartitionLag[]
}

/** The committed offset of a consumer group in one partition. */
export interface CommittedOffset {
  partition: number
  /** Offset of the next block that the group reads. */
  offset: bigint
  /** The offset after the newest block: equal to `offset` when the group has read everything. */
  endOffset: bigint
}

/** The blocks of one partition that a consumer has not committed yet. */
export interface PartitionLag {
  partition: number
  /** The group's committed offset: all blocks below it were committed, by this member or an earlier one. */
  committed: bigint
  /** Blocks not yet committed. */
  blocks: number
  /** Unix ms at which the oldest of these blocks was appended; undefined while this member has fetched none. */
  oldestAppendedAt: number | undefined
}

/** A member's ownership of one partition, from one rebalance to the next. */
export interface Claim {
  readonly partition: number
  /**
   * Aborted when another member owns the partition or may own it, and when the handler of another claim has failed and
   * this claim has not ended within 5 s. Further commits are refused then.
   */
  readonly lost: AbortSignal
  /**
   * Batches in order of offset, beginning at the group's committed offset. Ends when the claim is lost or the consumer
   * stops. `ready` is called when a batch is due, because it is full or its first block has lingered. The batch then
   * also holds the blocks that arrive until the promise resolves. The promise must not reject.
   */
  batches(options?: { ready?: () => Promise<void> }): AsyncIterable<LogBatch>
  /**
   * Commits the offset after `batch`. Each batch is committed once and in order, after it has been processed. Rejects
   * when the claim is lost: the next owner reads the blocks again, which is harmless.
   */
  commit(batch: LogBatch): Promise<void>
}

/** Consecutive blocks of one partition, which are processed and committed together. */
export interface LogBatch {
  readonly partition: number
  readonly firstOffset: bigint
  /** The offset after the last block, which a commit stores. */
  readonly nextOffset: bigint
  readonly blocks: readonly Block[]
  /** The offsets of the blocks, in the same order. */
  readonly offsets: readonly bigint[]
  readonly rows: number
  readonly bytes: number
  /** Unix ms at which the oldest block was appended. */
  readonly oldestAppendedAt: number
}
