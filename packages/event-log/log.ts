import type { Block } from '@sluice/contracts/block'

/**
 * The event log: an ordered, durable list of blocks per partition, read by consumer groups.
 * Adapters: kafka.ts (production) and sqlite.ts (embedded); both pass conformance.ts.
 */
export interface EventLog {
  /** Number of partitions, constant while the log is open. Rejects while the log can't be reached. */
  partitions(): Promise<number>
  /**
   * Names this log among all that write into one ClickHouse: Kafka's cluster id and the topic, or the id that a
   * file log got when it was made. Part of the `query_id` that admits one writer per partition. `[A-Za-z0-9._-]+`.
   */
  id(): Promise<string>
  /**
   * Appends blocks; resolves when every one is durable (fsynced, or acknowledged by all in-sync replicas).
   * A rejection leaves it open whether some are: callers repeat, readers deduplicate. Blocks of one call and one
   * partition keep their order; calls that don't wait for each other have none.
   * Throws SluiceError 503 (retryable) when the log is away or `timeoutMs` passed.
   */
  publish(blocks: readonly Block[], options: { timeoutMs: number }): Promise<void>
  /** A member of a consumer group. Nothing is read before `run`. */
  consumer(options: ConsumerOptions): LogConsumer
  /**
   * Where a group stands in every partition, whether it has members or not. Asking makes the group known, as joining
   * does. Throws SluiceError 503 while the log is away.
   */
  positions(group: string): Promise<readonly GroupPosition[]>
  /**
   * By partition, the offset after its newest block: what was acknowledged before the call lies below. Names the
   * partitions that there are now. Throws SluiceError 503 while the log is away.
   */
  ends(): Promise<readonly bigint[]>
  /** Resolves when the log answers; rejects with the reason otherwise. For readiness, so it must be cheap. */
  check(): Promise<void>
  /** Ends producers, consumers and connections; waits for publishes under way. */
  close(): Promise<void>
}

export interface ConsumerOptions {
  /** Members of one group share the partitions; groups of two logs have nothing to do with each other. */
  group: string
  /** A batch has at most this many bytes of payload, unless its only block is larger; it is handed over once full. */
  maxBatchBytes: number
  /** … or this many rows. */
  maxBatchRows: number
  /** … or once its first block waited so long for company. */
  lingerMs: number
  /**
   * Called once per claimed partition, after the handler of this member's earlier claim on it has settled; settles
   * when the claim's batches end. A rejection ends `run`, unless the claim was lost: then it only ends the claim, so a
   * handler may let a refused commit through.
   */
  onClaim: (claim: Claim) => Promise<void>
}

export interface LogConsumer {
  /** Joins the group and consumes until `stop`; rejects when it can't go on (the caller may make a new one). */
  run(): Promise<void>
  /** No new batches; waits for claims to settle (their last commit included), leaves the group. Idempotent. */
  stop(): Promise<void>
  /** How far the work on each claimed partition is; what is not committed, as of the last fetch. */
  lag(): readonly PartitionLag[]
}

export interface GroupPosition {
  partition: number
  /** Offset of the next block that the group reads. */
  next: bigint
  /** The offset after the newest block: equal to `next` when the group has read everything. */
  end: bigint
}

export interface PartitionLag {
  partition: number
  /** The group's position: whatever lies below was handed over and committed, by this member or one before it. */
  committed: bigint
  /** Blocks not yet committed. */
  blocks: number
  /** Unix ms at which the oldest of them was appended; undefined while none is known here. */
  oldestAppendedAt: number | undefined
}

/** One partition, held by this member from one rebalance to the next. */
export interface Claim {
  readonly partition: number
  /** Aborted when the partition went to another member (or may have): nothing more may be committed. */
  readonly lost: AbortSignal
  /** Batches in order of offset, from the group's committed position. Ends when the claim is lost or the consumer stops. */
  batches(): AsyncIterable<LogBatch>
  /**
   * Commits the position after `batch`. Batches are committed once each, in order, after their work.
   * Rejects when the claim is lost: another member reads them again, which is harmless.
   */
  commit(batch: LogBatch): Promise<void>
}

export interface LogBatch {
  readonly partition: number
  readonly firstOffset: bigint
  /** The offset after the last block: what a commit stores. */
  readonly nextOffset: bigint
  readonly blocks: readonly Block[]
  /** The offset of each of them. */
  readonly offsets: readonly bigint[]
  readonly rows: number
  readonly bytes: number
  /** Unix ms at which the oldest block was appended: its age is the freshness that readers see. */
  readonly oldestAppendedAt: number
}
