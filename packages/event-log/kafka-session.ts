import type { Consumer, EachBatchPayload } from 'kafkajs'
import { createClaimFeed, type ClaimFeed } from './claim-feed.ts'
import type { ClaimSet } from './claim-set.ts'
import { withDeadline } from '@sluice/runtime/deadline'
import { pause } from '@sluice/runtime/supervisor'
import { describeKafkaError, kafkaErrorType, type KafkaAdmin, type KafkaClient } from './kafka-client.ts'
import { fetchOffsets, kafkaGroup, startOffset, type PartitionOffsets } from './kafka-offsets.ts'
import { decodeRecord } from './kafka-record.ts'
import type { ConsumerOptions, PartitionLag } from './log.ts'
import type { EventLogLogger } from './logger.ts'

/** How a member keeps its place in the group; all in ms. */
export interface KafkaGroupTimes {
  /** The group takes a member for dead that was not heard of for so long. */
  sessionTimeoutMs: number
  heartbeatIntervalMs: number
  /** How long the members may take to join again when the group changes. */
  rebalanceTimeoutMs: number
}

export interface KafkaSessionOptions {
  topic: string
  client: KafkaClient
  admin: KafkaAdmin
  consumerOptions: ConsumerOptions
  times: KafkaGroupTimes
  claims: ClaimSet
  /** Aborted when no further claim may begin: the member is stopping. */
  draining: AbortSignal
  logger: EventLogLogger
}

/** One membership, from joining to its end; a member that is thrown out begins another. */
export interface KafkaSession {
  /** Resolves with the reason when kafkajs gave up, or when nothing was heard of the group for too long. */
  readonly ended: Promise<unknown>
  /** Joined the group at least once. */
  joined(): boolean
  lag(): readonly PartitionLag[]
  /** Leaves the group and disconnects, in a few seconds at most; claims must be over by then. Never rejects. */
  close(): Promise<void>
}

interface Held {
  feed: ClaimFeed
  /** The only offset at which a fetched batch may begin. */
  expected: bigint
  high: bigint
  /** Batches refused in a row because they began elsewhere. */
  mismatches: number
  seeking: boolean
}

/**
 * A fetch returns after so long when nothing came in. It bounds how late a heartbeat or the resumption of a paused
 * partition is; new blocks are answered at once.
 */
const fetchWaitMsMax = 100
/** kafkajs's default of 1 MiB is two blocks of a busy gateway. */
const fetchBytesMax = 16 * 1024 * 1024
const metadataAgeMsMax = 5000
const adminTimeoutMs = 5000
const connectTimeoutMs = 6000
const leaveTimeoutMs = 3000
const commitAttempts = 4
const mismatchesMax = 5
/** A commit refused with one of these comes from a member that the group has replaced. */
const fencedTypes = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'NOT_COORDINATOR_FOR_GROUP']

export function openKafkaSession(options: KafkaSessionOptions): KafkaSession {
  const { topic, client, consumerOptions, times, claims, draining, logger } = options
  const group = kafkaGroup(topic, consumerOptions.group)
  const ended = Promise.withResolvers<unknown>()
  const closed = new AbortController()
  /** By partition; replaced as a whole by each assignment. */
  let held = new Map<number, Held>()
  let assigned: readonly number[] = []
  /** Goes up with each assignment: what an earlier one still has under way is void. */
  let generation = 0
  let joined = false
  let heardAt = performance.now()
  /** Joining may take as long as the slowest member needs to notice, and no heartbeat is sent meanwhile. */
  let joining = true
  let expired = false
  /** The last offset that Kafka confirmed, by partition. */
  const storedOffsets = new Map<number, bigint>()

  // On each failure kafkajs would start itself again, with state of before; the caller begins a new session instead.
  const consumer: Consumer = client.kafka.consumer({
    groupId: group,
    sessionTimeout: times.sessionTimeoutMs,
    heartbeatInterval: times.heartbeatIntervalMs,
    rebalanceTimeout: times.rebalanceTimeoutMs,
    maxBytesPerPartition: fetchBytesMax,
    maxBytes: fetchBytesMax,
    minBytes: 1,
    maxWaitTimeInMs: fetchWaitMsMax,
    allowAutoTopicCreation: false,
    // kafkajs learns of new leaders from a broker's refusal, but not from silence.
    metadataMaxAge: metadataAgeMsMax,
    retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000, restartOnFailure: () => Promise.resolve(false) },
  })

  /** kafkajs throws once it has stopped by itself; there is nothing to pause then, and `ended` tells. */
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
    held = new Map()
    claims.loseAll(reason)
  }

  /**
   * The group forgets a member that was silent for the session's length, so such a member must not go on, whatever
   * kafkajs believes: after a freeze this is known here before any answer from the network. It also ends what kafkajs
   * would wait for in vain, a coordinator that is frozen, say.
   */
  const checkSession = (): boolean => {
    const silentMs = Math.round(performance.now() - heardAt)
    if (!expired && silentMs > times.sessionTimeoutMs + (joining ? times.rebalanceTimeoutMs : 0)) {
      expired = true
      loseAll(`nothing heard of the group for ${silentMs} ms`)
      ended.resolve(new Error(`nothing heard of the group for ${silentMs} ms`))
    }
    return !expired
  }

  const stillMine = (mine: number) => mine === generation && !closed.signal.aborted && !draining.aborted

  /** Asks until it is answered, or until the answer is of no use. */
  async function offsetsFor(mine: number): Promise<Map<number, PartitionOffsets> | undefined> {
    for (let waitMs = 100; stillMine(mine); waitMs = Math.min(2 * waitMs, 2000)) {
      try {
        return await options.admin.use((admin) => fetchOffsets(admin, group, topic), adminTimeoutMs)
      } catch (error) {
        logger.warn({ group, reason: describeKafkaError(error) }, 'positions of the group are not known yet')
        await pause(waitMs, closed.signal)
      }
    }
    return undefined
  }

  /** New claims for `partitions`, each from its committed position. They are paused until then. */
  async function begin(partitions: readonly number[], mine: number): Promise<void> {
    const offsets = await offsetsFor(mine)
    if (offsets === undefined || !stillMine(mine)) return
    for (const partition of partitions) {
      const known = offsets.get(partition)
      if (known === undefined) throw new Error(`Kafka does not know partition ${partition} of ${topic}`)
      const start = startOffset(known)
      if (known.committed !== undefined && known.committed !== start) {
        logger.error(
          { group, partition, committed: String(known.committed), low: String(known.low), high: String(known.high) },
          'the committed position lies outside of what Kafka keeps: blocks were deleted unread, or come again',
        )
      }
      const feed = createClaimFeed({
        partition,
        startOffset: start,
        limits: consumerOptions,
        store: (nextOffset) => commit(partition, nextOffset, mine),
        onRoom: () => {
          if (stillMine(mine)) resumePartitions([partition])
        },
      })
      held.set(partition, { feed, expected: start, high: known.high, mismatches: 0, seeking: false })
      seek(partition, start)
      claims.start(feed)
    }
    resumePartitions(partitions)
  }

  const assign = (partitions: readonly number[]) => {
    loseAll('the group shared out its partitions anew')
    assigned = partitions
    pausePartitions(partitions)
    const mine = generation
    if (stillMine(mine)) begin(partitions, mine).catch(ended.resolve)
  }

  /** A batch began elsewhere than where the claim stands: go back there, or past what Kafka has deleted meanwhile. */
  async function seekAgain(partition: number, claim: Held, mine: number): Promise<void> {
    claim.seeking = true
    pausePartitions([partition])
    const known = (await offsetsFor(mine))?.get(partition)
    if (known === undefined || !stillMine(mine)) return
    if (claim.expected < known.low) {
      logger.error(
        { group, partition, expected: String(claim.expected), low: String(known.low) },
        'blocks were deleted by the topic’s retention before they were read',
      )
      claim.expected = known.low
      claim.feed.skipTo(known.low)
    }
    claim.seeking = false
    seek(partition, claim.expected)
    if (!claim.feed.full()) resumePartitions([partition])
  }

  /** Must return at once: kafkajs fetches nothing, from any partition of the broker, until it does. */
  const takeBatch = (payload: EachBatchPayload): Promise<void> => {
    const { batch } = payload
    const { partition } = batch
    const claim = checkSession() ? held.get(partition) : undefined
    const last = batch.messages.at(-1)
    // Dropped without being resolved: it will be fetched again, by whoever is entitled to it.
    if (claim === undefined || claim.feed.ended() || claim.seeking || last === undefined) {
      if (claim?.feed.ended() !== false) pausePartitions([partition])
      return Promise.resolve()
    }
    // A batch that was fetched for an earlier claim may come up now. Taken in, it would let this claim commit a
    // position past blocks that nobody was handed.
    const { fetchedOffset } = batch as unknown as { fetchedOffset: string }
    if (BigInt(fetchedOffset) !== claim.expected) {
      claim.mismatches++
      if (claim.mismatches > mismatchesMax) {
        ended.resolve(
          new Error(`Partition ${partition} can't be read from ${claim.expected} on: is ${topic} compacted?`),
        )
      } else void seekAgain(partition, claim, generation)
      return Promise.resolve()
    }
    claim.mismatches = 0
    claim.expected = BigInt(batch.lastOffset()) + 1n
    claim.high = BigInt(batch.highWatermark)
    claim.feed.push(batch.messages.map((message) => decodeRecord(partition, message)))
    payload.resolveOffset(last.offset)
    if (claim.feed.full()) pausePartitions([partition])
    return Promise.resolve()
  }

  async function commit(partition: number, nextOffset: bigint, mine: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      if (!checkSession() || mine !== generation) throw new Error(`Partition ${partition} was lost`)
      try {
        storedOffsets.delete(partition)
        await consumer.commitOffsets([{ topic, partition, offset: String(nextOffset) }])
        // kafkajs does nothing, and reports nothing, while it stops.
        if (storedOffsets.get(partition) !== nextOffset) throw new Error('kafkajs is stopping, nothing was committed')
        return
      } catch (error) {
        const type = kafkaErrorType(error) ?? ''
        if (fencedTypes.includes(type) && mine === generation) {
          loseAll(`the group refused a commit: ${type}`)
          pausePartitions(assigned)
        }
        if (attempt === commitAttempts || mine !== generation) throw error
        logger.debug({ group, partition, reason: describeKafkaError(error) }, 'a commit is tried again')
        await pause(100 * 2 ** attempt, closed.signal)
      }
    }
  }

  const { events } = consumer
  consumer.on(events.GROUP_JOIN, ({ payload }) => {
    heardAt = performance.now()
    joined = true
    joining = false
    assign(payload.memberAssignment[topic] ?? [])
    logger.info({ group, member: payload.memberId, partitions: assigned }, 'joined the consumer group')
    // kafkajs joins to the end even if it was told to disconnect meanwhile.
    if (closed.signal.aborted) setImmediate(() => void client.close(() => consumer.disconnect(), leaveTimeoutMs))
  })
  consumer.on(events.REBALANCING, () => {
    joining = true
    loseAll('the group is rebalancing')
  })
  consumer.on(events.HEARTBEAT, () => {
    heardAt = performance.now()
  })
  consumer.on(events.COMMIT_OFFSETS, ({ payload }) => {
    heardAt = performance.now()
    for (const { partition, offset } of payload.topics.flatMap(({ partitions }) => partitions)) {
      storedOffsets.set(partition, BigInt(offset))
    }
  })
  consumer.on(events.REQUEST_TIMEOUT, ({ payload }) => {
    client.cutOff(payload.broker)
  })
  consumer.on(events.CRASH, ({ payload }) => {
    ended.resolve(payload.error)
  })

  // kafkajs may wait for ever in silence; nothing may.
  const watch = setInterval(checkSession, times.heartbeatIntervalMs)
  draining.addEventListener('abort', () => {
    // Heartbeats and commits go on until the handlers have finished.
    if (joined) pausePartitions(assigned)
  })

  async function start(): Promise<void> {
    // kafkajs would ask the same silent broker again and again; a new session asks another.
    const late = () => new Error(`no broker answered within ${connectTimeoutMs} ms`)
    await withDeadline(consumer.connect(), connectTimeoutMs, late)
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    if (closed.signal.aborted) return
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: takeBatch })
  }
  const started = start().catch(ended.resolve)

  return {
    ended: ended.promise,
    joined: () => joined,
    lag: () =>
      [...held.values()]
        .filter(({ feed }) => !feed.ended())
        .map(({ feed, high }) => ({
          partition: feed.claim.partition,
          committed: feed.committed(),
          blocks: Math.max(0, Number(high - feed.committed())),
          oldestAppendedAt: feed.oldestAppendedAt(),
        })),
    async close() {
      clearInterval(watch)
      closed.abort()
      generation++
      await client.close(async () => {
        // Not before kafkajs has started: it would go on in spite of it.
        await started
        await consumer.disconnect()
      }, leaveTimeoutMs)
    },
  }
}
