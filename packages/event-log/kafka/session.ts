import type { Consumer } from 'kafkajs'
import { withDeadline } from '@sluice/runtime/deadline'
import type { LineLogger } from '@sluice/runtime/logger'
import type { ClaimSet } from '../consumer/claim-set.ts'
import { readBudget } from '../consumer/read-budget.ts'
import type { ConsumerOptions, PartitionLag } from '../log.ts'
import { createAssignment } from './assignment.ts'
import type { KafkaAdmin, KafkaClient } from './client.ts'
import { createOffsetCommitter } from './commit-offset.ts'
import { createFetchControl } from './fetch-control.ts'
import type { KafkaGroupTimes } from './group-times.ts'
import { kafkaGroup } from './offsets.ts'
import { createSessionExpiry } from './session-expiry.ts'

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
  /** Called each time that the member has joined the group: at the beginning and after each rebalance. */
  onJoined: () => void
  logger: LineLogger
}

/**
 * One membership in the group, from joining to its end. If the group removes the member, the caller opens another
 * session.
 */
export interface KafkaSession {
  /** Resolves with the reason when kafkajs stopped, or when the group did not respond for too long. */
  readonly ended: Promise<unknown>
  /** True once the session has joined the group. */
  hasJoined(): boolean
  lag(): readonly PartitionLag[]
  /** Leaves the group and disconnects within a few seconds; all claims must have ended before. Never rejects. */
  close(): Promise<void>
}

/**
 * A fetch returns when it has this many bytes, or after `fetchWaitMsMax` with the bytes that exist. The wait bounds the
 * delay of new blocks, of heartbeats and of resumed partitions. If a fetch returned for every new block, it would take
 * more CPU of the broker and this process than storing the block.
 */
const fetchBytesMin = 64 * 1024
const fetchWaitMsMax = 50
/** kafkajs's default of 1 MiB is two blocks of a busy gateway. */
const fetchBytesMax = 16 * 1024 * 1024
const metadataAgeMsMax = 5000
const connectTimeoutMs = 6000
const leaveTimeoutMs = 3000

/** Joins the group, and runs each assignment of partitions until the next one replaces it. */
export function openKafkaSession(options: KafkaSessionOptions): KafkaSession {
  const { topic, client, consumerOptions, times, claims, draining, logger } = options
  const group = kafkaGroup(topic, consumerOptions.group)
  const ended = Promise.withResolvers<unknown>()
  const closed = new AbortController()
  let hasJoined = false

  const consumer = createConsumer(group, options)
  const fetching = createFetchControl(consumer, { topic, group, logger })
  const expiry = createSessionExpiry(times, (reason) => {
    assignment.lose(reason)
    ended.resolve(new Error(reason))
  })
  const assignmentContext = {
    topic,
    group,
    topicPartitions: options.partitions,
    limits: consumerOptions,
    admin: options.admin,
    claims,
    fetching,
    committer: createOffsetCommitter(consumer, { topic, group, expiry, closed: closed.signal, logger }),
    closed: closed.signal,
    draining,
    onFailure: ended.resolve,
    logger,
  }
  /** Empty until the member has joined. */
  let assignment = createAssignment([], assignmentContext)

  const assign = (partitions: readonly number[]) => {
    assignment.lose('the group reassigned its partitions')
    assignment = createAssignment(partitions, assignmentContext)
    assignment.begin()
  }

  const { events } = consumer
  consumer.on(events.GROUP_JOIN, ({ payload }) => {
    hasJoined = true
    options.onJoined()
    expiry.recordJoined()
    const partitions = payload.memberAssignment[topic] ?? []
    assign(partitions)
    logger.info({ group, member: payload.memberId, partitions }, 'joined the consumer group')
    // kafkajs completes a join even if it was disconnected in the meantime.
    if (closed.signal.aborted) setImmediate(() => void client.close(() => consumer.disconnect(), leaveTimeoutMs))
  })
  consumer.on(events.REBALANCING, () => {
    expiry.recordRejoin()
    assignment.lose('the group is rebalancing')
  })
  consumer.on(events.HEARTBEAT, () => expiry.recordContact())
  consumer.on(events.COMMIT_OFFSETS, () => expiry.recordContact())
  consumer.on(events.REQUEST_TIMEOUT, ({ payload }) => client.destroyConnections(payload.broker))
  consumer.on(events.CRASH, ({ payload }) => ended.resolve(payload.error))

  // Some waits of kafkajs are unlimited, for example for a frozen coordinator.
  const watch = setInterval(() => expiry.check(), times.heartbeatIntervalMs)
  draining.addEventListener(
    'abort',
    () => {
      // Heartbeats and commits continue until the handlers have finished.
      if (hasJoined) fetching.pause(assignment.partitions)
    },
    // The listener must be removed: the consumer outlives its sessions, and there are many while Kafka is unavailable.
    { signal: closed.signal },
  )

  async function start(): Promise<void> {
    // kafkajs would retry the same unresponsive broker. A new session connects to another one.
    const late = () => new Error(`no broker answered within ${connectTimeoutMs} ms`)
    await withDeadline(consumer.connect(), connectTimeoutMs, late)
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    if (closed.signal.aborted) return
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: (payload) => {
        if (expiry.check()) assignment.receive(payload)
        else fetching.pause([payload.batch.partition])
        return Promise.resolve()
      },
    })
  }
  const started = start().catch(ended.resolve)

  return {
    ended: ended.promise,
    hasJoined: () => hasJoined,
    lag: () => assignment.lag(),
    async close() {
      clearInterval(watch)
      closed.abort()
      assignment.lose('the session is closed')
      await client.close(async () => {
        // kafkajs ignores a disconnect while it is starting.
        await started
        await consumer.disconnect()
      }, leaveTimeoutMs)
    },
  }
}

function createConsumer(group: string, { client, consumerOptions, times, partitions }: KafkaSessionOptions): Consumer {
  return client.kafka.consumer({
    groupId: group,
    sessionTimeout: times.sessionTimeoutMs,
    heartbeatInterval: times.heartbeatIntervalMs,
    rebalanceTimeout: times.rebalanceTimeoutMs,
    maxBytesPerPartition: (consumerOptions.budget ?? readBudget(Infinity)).pieceBytes(partitions),
    maxBytes: fetchBytesMax,
    minBytes: fetchBytesMin,
    maxWaitTimeInMs: fetchWaitMsMax,
    allowAutoTopicCreation: false,
    // kafkajs learns of new leaders when a broker refuses a request, but not when a broker does not respond.
    metadataMaxAge: metadataAgeMsMax,
    // After a failure, kafkajs would restart with its old state. The caller opens a new session instead.
    retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000, restartOnFailure: () => Promise.resolve(false) },
  })
}
