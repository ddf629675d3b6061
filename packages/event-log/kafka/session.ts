import type { Consumer, EachBatchPayload } from 'kafkajs'
import { withDeadline } from '@sluice/runtime/deadline'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { sleep } from '@sluice/runtime/supervisor'
import { type ClaimFeed, createClaimFeed } from '../consumer/claim-feed.ts'
import type { ClaimSet } from '../consumer/claim-set.ts'
import { readBudget } from '../consumer/read-budget.ts'
import type { ConsumerOptions, PartitionLag } from '../log.ts'
import { describeKafkaError, type KafkaAdmin, type KafkaClient, kafkaErrorType } from './client.ts'
import { fetchOffsets, kafkaGroup, type PartitionOffsets, startOffset } from './offsets.ts'
import { decodeRecord } from './record.ts'

/** Timings of a member of the group, in ms. */
export interface KafkaGroupTimes {
  /** The group removes a member that sent no heartbeat for so long. */
  sessionTimeoutMs: number
  heartbeatIntervalMs: number
  /** Time that the members have to rejoin when the group changes. */
  rebalanceTimeoutMs: number
}

export interface KafkaSessionOptions {
  topic: string
  /** Number of partitions of the topic. */
  partitions: number
  client: KafkaClient
  admin: KafkaAdmin
  consumerOptions: ConsumerOptions
  times: KafkaGroupTimes
  claims: ClaimSet
  /** Aborted when the member is stopping: no further claim may begin. */
  draining: AbortSignal
  /** Called each time that the member has joined the group, at first and after each rebalance. */
  onJoined: () => void
  logger: Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>
}

/** One membership in the group, from joining to its end; a member that the group removes opens another session. */
export interface KafkaSession {
  /** Resolves with the reason when kafkajs stopped, or when the group did not respond for too long. */
  readonly ended: Promise<unknown>
  /** True once the session has joined the group. */
  hasJoined(): boolean
  lag(): readonly PartitionLag[]
  /** Leaves the group and disconnects within a few seconds; all claims must have ended before. Never rejects. */
  close(): Promise<void>
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

/**
 * A fetch returns with so many bytes, or with what there is after the wait, which bounds the delay of new blocks, of
 * heartbeats and of resumed partitions. A fetch that returned with every new block would cost the broker and this process
 * more CPU than storing the block costs.
 */
const fetchBytesMin = 64 * 1024
const fetchWaitMsMax = 50
/** kafkajs's default of 1 MiB is two blocks of a busy gateway. */
const fetchBytesMax = 16 * 1024 * 1024
const metadataAgeMsMax = 5000
const adminTimeoutMs = 5000
const offsetDelays = { firstMs: 100, longestMs: 2000 }
const connectTimeoutMs = 6000
const leaveTimeoutMs = 3000
const commitAttempts = 4
const mismatchesMax = 5
/** Errors of a commit by a member that the group has replaced. */
const fencedTypes = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'NOT_COORDINATOR_FOR_GROUP']

export function openKafkaSession(options: KafkaSessionOptions): KafkaSession {
  const { topic, client, consumerOptions, times, claims, draining, logger } = options
  const group = kafkaGroup(topic, consumerOptions.group)
  const ended = Promise.withResolvers<unknown>()
  const closed = new AbortController()
  /** Claims by partition; each assignment replaces the whole map. */
  let heldClaims = new Map<number, HeldClaim>()
  let assigned: readonly number[] = []
  /** Incremented by each assignment: pending work of an earlier one is void. */
  let generation = 0
  let hasJoined = false
  let lastContactAt = performance.now()
  /** While the member joins, which lasts until the slowest member has rejoined, no heartbeat is sent. */
  let isJoining = true
  let hasExpired = false
  /** The last offset that Kafka confirmed, by partition. */
  const storedOffsets = new Map<number, bigint>()

  // kafkajs would restart after a failure with its old state; the caller opens a new session instead.
  const consumer: Consumer = client.kafka.consumer({
    groupId: group,
    sessionTimeout: times.sessionTimeoutMs,
    heartbeatInterval: times.heartbeatIntervalMs,
    rebalanceTimeout: times.rebalanceTimeoutMs,
    maxBytesPerPartition: (consumerOptions.budget ?? readBudget(Infinity)).pieceBytes(options.partitions),
    maxBytes: fetchBytesMax,
    minBytes: fetchBytesMin,
    maxWaitTimeInMs: fetchWaitMsMax,
    allowAutoTopicCreation: false,
    // kafkajs learns of new leaders from a broker's refusal, but not from silence.
    metadataMaxAge: metadataAgeMsMax,
    retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000, restartOnFailure: () => Promise.resolve(false) },
  })

  /** Ignores the error that kafkajs throws once it has stopped by itself: `ended` resolves then. */
  const ifRunning = (action: () => void) => {
    try {
      action()
    } catch (error) {
      logger.debug({ group, reason: describeKafkaError(error) }, 'kafkajs has stopped')
    }
  }

  const pausePartitions = (partitions: readonly number[]) => {
    ifRunning(() => {
      consumer.pause([{ topic, partitions: [...partitions] }])
    })
  }

  const resumePartitions = (partitions: readonly number[]) => {
    ifRunning(() => {
      consumer.resume([{ topic, partitions: [...partitions] }])
    })
  }

  const seek = (partition: number, offset: bigint) => {
    ifRunning(() => {
      consumer.seek({ topic, partition, offset: String(offset) })
    })
  }

  const loseAll = (reason: string) => {
    generation++
    heldClaims = new Map()
    claims.loseAll(reason)
  }

  /**
   * Ends the session when the group has not responded for the session timeout: it has removed this member by then. After
   * a freeze of this process the check notices that before any response from the network does. It also ends waits of
   * kafkajs that have no limit, e.g. for a frozen coordinator. Returns false once the session has expired.
   */
  const checkSession = (): boolean => {
    const silentMs = Math.round(performance.now() - lastContactAt)
    if (!hasExpired && silentMs > times.sessionTimeoutMs + (isJoining ? times.rebalanceTimeoutMs : 0)) {
      hasExpired = true
      loseAll(`nothing heard of the group for ${silentMs} ms`)
      ended.resolve(new Error(`nothing heard of the group for ${silentMs} ms`))
    }
    return !hasExpired
  }

  const isCurrentGeneration = (claimGeneration: number) =>
    claimGeneration === generation && !closed.signal.aborted && !draining.aborted

  /** Requests the group's positions until Kafka answers; undefined when the generation has passed meanwhile. */
  async function fetchGroupOffsets(claimGeneration: number): Promise<Map<number, PartitionOffsets> | undefined> {
    const request = async () => {
      if (!isCurrentGeneration(claimGeneration)) return undefined
      return options.admin.use((admin) => fetchOffsets(admin, group, topic), adminTimeoutMs)
    }
    try {
      return await retry(request, {
        signal: closed.signal,
        delays: offsetDelays,
        onFailedAttempt: (error) => {
          logger.warn({ group, reason: describeKafkaError(error) }, 'positions of the group are not known yet')
        },
      })
    } catch (error) {
      if (isCurrentGeneration(claimGeneration)) throw error
      return undefined
    }
  }

  /** Begins a claim on each of `partitions` at its committed position, then resumes the partitions. */
  async function beginClaims(partitions: readonly number[], claimGeneration: number): Promise<void> {
    const offsets = await fetchGroupOffsets(claimGeneration)
    if (offsets === undefined || !isCurrentGeneration(claimGeneration)) return
    for (const partition of partitions) {
      const known = offsets.get(partition)
      if (known === undefined) throw new Error(`Kafka does not know partition ${partition} of ${topic}`)
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
          'the committed position lies outside of what Kafka keeps: blocks were deleted unread, or come again',
        )
      }
      const feed = createClaimFeed({
        partition,
        startOffset: start,
        limits: consumerOptions,
        partitions: options.partitions,
        store: (nextOffset) => commit(partition, nextOffset, claimGeneration),
        onSpaceAvailable: () => {
          if (isCurrentGeneration(claimGeneration)) resumePartitions([partition])
        },
      })
      heldClaims.set(partition, {
        feed,
        expectedOffset: start,
        highWatermark: known.high,
        mismatches: 0,
        isSeeking: false,
      })
      seek(partition, start)
      claims.start(feed)
    }
    resumePartitions(partitions)
  }

  const assign = (partitions: readonly number[]) => {
    loseAll('the group shared out its partitions anew')
    assigned = partitions
    pausePartitions(partitions)
    const claimGeneration = generation
    if (isCurrentGeneration(claimGeneration)) beginClaims(partitions, claimGeneration).catch(ended.resolve)
  }

  /** Seeks back to the claim's offset after a batch that began elsewhere, or past the blocks that Kafka has deleted. */
  async function seekToExpected(partition: number, claim: HeldClaim, claimGeneration: number): Promise<void> {
    claim.isSeeking = true
    pausePartitions([partition])
    const known = (await fetchGroupOffsets(claimGeneration))?.get(partition)
    if (known === undefined || !isCurrentGeneration(claimGeneration)) return
    if (claim.expectedOffset < known.low) {
      logger.error(
        { group, partition, expectedOffset: String(claim.expectedOffset), low: String(known.low) },
        'blocks were deleted by the topic’s retention before they were read',
      )
      claim.expectedOffset = known.low
      claim.feed.skipTo(known.low)
    }
    claim.isSeeking = false
    seek(partition, claim.expectedOffset)
    if (!claim.feed.isFull()) resumePartitions([partition])
  }

  /** Must return at once: until then kafkajs fetches nothing from any partition of the broker. */
  const takeBatch = (payload: EachBatchPayload): Promise<void> => {
    const { batch } = payload
    const { partition } = batch
    const claim = checkSession() ? heldClaims.get(partition) : undefined
    const last = batch.messages.at(-1)
    // The batch is dropped without being resolved: the partition's next owner will fetch it again.
    if (claim === undefined || claim.feed.hasEnded() || claim.isSeeking || last === undefined) {
      if (claim?.feed.hasEnded() !== false) pausePartitions([partition])
      return Promise.resolve()
    }
    // This may be a batch that was fetched for an earlier claim. With it, this claim could commit a position past blocks
    // that no handler has received.
    const { fetchedOffset } = batch as unknown as { fetchedOffset: string }
    if (BigInt(fetchedOffset) !== claim.expectedOffset) {
      claim.mismatches++
      if (claim.mismatches > mismatchesMax) {
        ended.resolve(
          new Error(`Partition ${partition} can't be read from ${claim.expectedOffset} on: is ${topic} compacted?`),
        )
      } else seekToExpected(partition, claim, generation).catch(ended.resolve)
      return Promise.resolve()
    }
    claim.mismatches = 0
    claim.expectedOffset = BigInt(batch.lastOffset()) + 1n
    claim.highWatermark = BigInt(batch.highWatermark)
    claim.feed.push(batch.messages.map((message) => decodeRecord(partition, message)))
    payload.resolveOffset(last.offset)
    if (claim.feed.isFull()) pausePartitions([partition])
    return Promise.resolve()
  }

  async function commit(partition: number, nextOffset: bigint, claimGeneration: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      if (!checkSession() || claimGeneration !== generation) throw new Error(`Partition ${partition} was lost`)
      try {
        storedOffsets.delete(partition)
        await consumer.commitOffsets([{ topic, partition, offset: String(nextOffset) }])
        // kafkajs does nothing, and reports nothing, while it stops.
        if (storedOffsets.get(partition) !== nextOffset) throw new Error('kafkajs is stopping, nothing was committed')
        return
      } catch (error) {
        const type = kafkaErrorType(error) ?? ''
        if (fencedTypes.includes(type) && claimGeneration === generation) {
          loseAll(`the group refused a commit: ${type}`)
          pausePartitions(assigned)
        }
        if (attempt === commitAttempts || claimGeneration !== generation) throw error
        logger.debug({ group, partition, reason: describeKafkaError(error) }, 'a commit is tried again')
        await sleep(100 * 2 ** attempt, closed.signal)
      }
    }
  }

  const { events } = consumer
  consumer.on(events.GROUP_JOIN, ({ payload }) => {
    lastContactAt = performance.now()
    hasJoined = true
    options.onJoined()
    isJoining = false
    assign(payload.memberAssignment[topic] ?? [])
    logger.info({ group, member: payload.memberId, partitions: assigned }, 'joined the consumer group')
    // kafkajs completes a join even if it was disconnected meanwhile.
    if (closed.signal.aborted) setImmediate(() => void client.close(() => consumer.disconnect(), leaveTimeoutMs))
  })
  consumer.on(events.REBALANCING, () => {
    isJoining = true
    loseAll('the group is rebalancing')
  })
  consumer.on(events.HEARTBEAT, () => {
    lastContactAt = performance.now()
  })
  consumer.on(events.COMMIT_OFFSETS, ({ payload }) => {
    lastContactAt = performance.now()
    for (const { partition, offset } of payload.topics.flatMap(({ partitions }) => partitions)) {
      storedOffsets.set(partition, BigInt(offset))
    }
  })
  consumer.on(events.REQUEST_TIMEOUT, ({ payload }) => {
    client.destroyConnections(payload.broker)
  })
  consumer.on(events.CRASH, ({ payload }) => {
    ended.resolve(payload.error)
  })

  // Some waits of kafkajs have no limit.
  const watch = setInterval(checkSession, times.heartbeatIntervalMs)
  draining.addEventListener('abort', () => {
    // Heartbeats and commits continue until the handlers have finished.
    if (hasJoined) pausePartitions(assigned)
  })

  async function start(): Promise<void> {
    // kafkajs would retry the same unresponsive broker; a new session connects to another one.
    const late = () => new Error(`no broker answered within ${connectTimeoutMs} ms`)
    await withDeadline(consumer.connect(), connectTimeoutMs, late)
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    if (closed.signal.aborted) return
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: takeBatch })
  }
  const started = start().catch(ended.resolve)

  return {
    ended: ended.promise,
    hasJoined: () => hasJoined,
    lag: () =>
      [...heldClaims.values()]
        .filter(({ feed }) => !feed.hasEnded())
        .map(({ feed, highWatermark: highWatermark }) => ({
          partition: feed.claim.partition,
          committed: feed.committed(),
          blocks: Math.max(0, Number(highWatermark - feed.committed())),
          oldestAppendedAt: feed.oldestAppendedAt(),
        })),
    async close() {
      clearInterval(watch)
      closed.abort()
      generation++
      await client.close(async () => {
        // kafkajs ignores a disconnect while it is starting.
        await started
        await consumer.disconnect()
      }, leaveTimeoutMs)
    },
  }
}
