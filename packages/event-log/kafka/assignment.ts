import type { EachBatchPayload } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { type ClaimFeed, createClaimFeed } from '../consumer/claim-feed.ts'
import type { ClaimSet } from '../consumer/claim-set.ts'
import type { ConsumerOptions, PartitionLag } from '../log.ts'
import { adminCallTimeoutMs, describeKafkaError, type KafkaAdmin } from './client.ts'
import type { OffsetCommitter } from './commit-offset.ts'
import type { FetchControl } from './fetch-control.ts'
import { fetchOffsets, type PartitionOffsets, startOffset } from './offsets.ts'
import { decodeRecord } from './record.ts'

/** Dependencies that the assignments of a session share. */
export interface AssignmentContext {
  topic: string
  /** The consumer group as Kafka knows it. */
  group: string
  /** Number of partitions of the topic. */
  topicPartitions: number
  limits: Pick<ConsumerOptions, 'batchBytesMax' | 'batchRowsMax' | 'lingerMs' | 'budget'>
  admin: KafkaAdmin
  claims: ClaimSet
  fetching: FetchControl
  committer: OffsetCommitter
  /** Aborted when the session is closing. */
  closed: AbortSignal
  /** Aborted when the member is stopping: no further claim may begin. */
  draining: AbortSignal
  /** Called with an error after which the session can't continue. */
  onFailure: (error: unknown) => void
  logger: Pick<Logger, 'warn' | 'error'>
}

/** The partitions that the group gave to this member in one rebalance, and the member's claims on them. */
export interface Assignment {
  readonly partitions: readonly number[]
  /** Pauses the partitions, then begins a claim on each at its committed offset and resumes them. */
  begin(): void
  /** Must return without waiting: until it returns, kafkajs fetches nothing from any partition of the broker. */
  receive(payload: EachBatchPayload): void
  /**
   * Ends the claims, because other members may own the partitions. Pending work of this assignment has no effect then.
   */
  lose(reason: string): void
  lag(): readonly PartitionLag[]
}

interface HeldClaim {
  feed: ClaimFeed
  /** The only offset at which a fetched batch may begin. */
  expectedOffset: bigint
  highWatermark: bigint
  /** Consecutive batches that were dropped because they began at another offset. */
  mismatches: number
  isSeeking: boolean
}

const offsetDelays = { firstMs: 100, longestMs: 2000 }
const mismatchesMax = 5

/** An assignment whose claims have not begun; `begin` begins them. */
export function createAssignment(partitions: readonly number[], context: AssignmentContext): Assignment {
  const { topic, group, admin, claims, fetching, committer, closed, draining, onFailure, logger } = context
  const heldClaims = new Map<number, HeldClaim>()
  let isLost = false

  const isCurrent = () => !isLost && !closed.aborted && !draining.aborted

  const lose = (reason: string) => {
    isLost = true
    heldClaims.clear()
    claims.loseAll(reason)
  }

  const commitRight = {
    isLost: () => isLost,
    onFenced: (reason: string) => {
      lose(reason)
      fetching.pause(partitions)
    },
  }

  /**
   * Requests the group's committed offsets until Kafka answers. Returns undefined when the assignment has ended in the
   * meantime.
   */
  async function fetchGroupOffsets(): Promise<Map<number, PartitionOffsets> | undefined> {
    const request = async () => {
      if (!isCurrent()) return undefined
      return admin.use((kafkajsAdmin) => fetchOffsets(kafkajsAdmin, group, topic), adminCallTimeoutMs)
    }
    try {
      return await retry(request, {
        signal: closed,
        delays: offsetDelays,
        onFailedAttempt: (error) => {
          logger.warn({ group, reason: describeKafkaError(error) }, 'committed offsets could not be fetched, retrying')
        },
      })
    } catch (error) {
      if (isCurrent()) throw error
      return undefined
    }
  }

  async function beginClaims(): Promise<void> {
    const offsets = await fetchGroupOffsets()
    if (offsets === undefined || !isCurrent()) return
    for (const partition of partitions) {
      const known = offsets.get(partition)
      if (known === undefined) throw new Error(`Kafka does not know partition ${partition} of ${topic}`)
      beginClaim(partition, known)
    }
    fetching.resume(partitions)
  }

  function beginClaim(partition: number, known: PartitionOffsets): void {
    const start = startOffset(known)
    if (known.committed !== undefined && known.committed !== start) {
      logger.error(
        {
          group,
          partition,
          committed: String(known.committed),
          low: String(known.low),
          highWatermark: String(known.high),
        },
        'committed offset out of range: blocks were deleted unread, or will be read again',
      )
    }
    const feed = createClaimFeed({
      partition,
      startOffset: start,
      limits: context.limits,
      partitions: context.topicPartitions,
      store: (nextOffset) => committer.commit(partition, nextOffset, commitRight),
      onSpaceAvailable: () => {
        if (isCurrent()) fetching.resume([partition])
      },
    })
    heldClaims.set(partition, {
      feed,
      expectedOffset: start,
      highWatermark: known.high,
      mismatches: 0,
      isSeeking: false,
    })
    fetching.seek(partition, start)
    claims.start(feed)
  }

  /**
   * After a batch that began at another offset, seeks back to the claim's offset, or past blocks that Kafka has
   * deleted.
   */
  async function seekToExpected(partition: number, claim: HeldClaim): Promise<void> {
    claim.isSeeking = true
    fetching.pause([partition])
    const known = (await fetchGroupOffsets())?.get(partition)
    if (known === undefined || !isCurrent()) return
    if (claim.expectedOffset < known.low) {
      logger.error(
        { group, partition, expectedOffset: String(claim.expectedOffset), low: String(known.low) },
        'unread blocks were deleted by the retention of the topic, skipping them',
      )
      claim.expectedOffset = known.low
      claim.feed.skipTo(known.low)
    }
    if (known.committed === undefined) {
      // kafkajs commits -2 when a broker reports an offset as out of range, even if the broker is wrong
      // (kafkajs#1464). Without this, the partition's next claim would begin at its oldest block.
      try {
        await claim.feed.commitAgain()
      } catch (error) {
        if (isCurrent()) throw error
      }
      if (!isCurrent()) return
    }
    claim.isSeeking = false
    fetching.seek(partition, claim.expectedOffset)
    if (!claim.feed.isFull()) fetching.resume([partition])
  }

  /** Drops a batch that begins at another offset than the claim's next one. */
  function dropMismatch(partition: number, claim: HeldClaim): void {
    claim.mismatches++
    if (claim.mismatches > mismatchesMax) {
      onFailure(
        new Error(`Partition ${partition} can't be read from ${claim.expectedOffset} on: is ${topic} compacted?`),
      )
    } else seekToExpected(partition, claim).catch(onFailure)
  }

  return {
    partitions,
    begin() {
      fetching.pause(partitions)
      if (isCurrent()) beginClaims().catch(onFailure)
    },
    receive(payload) {
      const { batch } = payload
      const { partition } = batch
      const claim = heldClaims.get(partition)
      const last = batch.messages.at(-1)
      // The batch is dropped without being resolved: the partition's next owner will fetch it again.
      if (claim === undefined || claim.feed.hasEnded() || claim.isSeeking || last === undefined) {
        if (claim?.feed.hasEnded() !== false) fetching.pause([partition])
        return
      }
      // The batch may have been fetched for an earlier claim. If this claim took it, it could commit an offset past
      // blocks that no handler has received.
      const { fetchedOffset } = batch as unknown as { fetchedOffset: string }
      if (BigInt(fetchedOffset) !== claim.expectedOffset) {
        dropMismatch(partition, claim)
        return
      }
      claim.mismatches = 0
      claim.expectedOffset = BigInt(batch.lastOffset()) + 1n
      claim.highWatermark = BigInt(batch.highWatermark)
      claim.feed.push(batch.messages.map((message) => decodeRecord(partition, message)))
      payload.resolveOffset(last.offset)
      if (claim.feed.isFull()) fetching.pause([partition])
    },
    lose,
    lag: () =>
      [...heldClaims.values()]
        .filter(({ feed }) => !feed.hasEnded())
        .map(({ feed, highWatermark }) => ({
          partition: feed.claim.partition,
          committed: feed.committed(),
          blocks: Math.max(0, Number(highWatermark - feed.committed())),
          oldestAppendedAt: feed.oldestAppendedAt(),
        })),
  }
}
