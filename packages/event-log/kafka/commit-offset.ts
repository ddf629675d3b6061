import type { Consumer } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { sleep } from '@sluice/runtime/sleep'
import { describeKafkaError, kafkaErrorType } from './client.ts'
import type { SessionExpiry } from './session-expiry.ts'

const attemptsMax = 4
/** Errors of a commit by a member that the group has replaced. */
const fencedTypes = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'NOT_COORDINATOR_FOR_GROUP']

/** The right to commit offsets of partitions, from their assignment until it is lost. */
export interface CommitRight {
  isLost(): boolean
  /** Called when the group refused a commit because it has replaced this member. */
  onFenced(reason: string): void
}

/** Commits the group's offsets, with retries. */
export interface OffsetCommitter {
  /** Resolves when Kafka has confirmed the offset; rejects when it has not, or when the right is lost. */
  commit(partition: number, nextOffset: bigint, right: CommitRight): Promise<void>
}

/** A committer for a consumer that is not running yet, so that it sees every confirmation from Kafka. */
export function createOffsetCommitter(
  consumer: Consumer,
  {
    topic,
    group,
    expiry,
    closed,
    logger,
  }: {
    topic: string
    group: string
    expiry: Pick<SessionExpiry, 'check'>
    /** Aborted when the session is closing: retries don't wait any longer. */
    closed: AbortSignal
    logger: Pick<Logger, 'debug'>
  },
): OffsetCommitter {
  /** The last offset that Kafka confirmed, by partition. */
  const confirmedOffsets = new Map<number, bigint>()
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    for (const { partition, offset } of payload.topics.flatMap(({ partitions }) => partitions)) {
      confirmedOffsets.set(partition, BigInt(offset))
    }
  })

  return {
    async commit(partition, nextOffset, right) {
      for (let attempt = 1; ; attempt++) {
        if (!expiry.check() || right.isLost()) throw new Error(`Partition ${partition} was lost`)
        try {
          confirmedOffsets.delete(partition)
          await consumer.commitOffsets([{ topic, partition, offset: String(nextOffset) }])
          // While kafkajs stops, it commits nothing and reports no error.
          if (confirmedOffsets.get(partition) !== nextOffset) {
            throw new Error('kafkajs is stopping, nothing was committed')
          }
          return
        } catch (error) {
          const type = kafkaErrorType(error) ?? ''
          if (fencedTypes.includes(type) && !right.isLost()) right.onFenced(`the group refused a commit: ${type}`)
          if (attempt === attemptsMax || right.isLost()) throw error
          logger.debug({ group, partition, reason: describeKafkaError(error) }, 'offset commit failed, retrying')
          await sleep(100 * 2 ** attempt, closed)
        }
      }
    },
  }
}
