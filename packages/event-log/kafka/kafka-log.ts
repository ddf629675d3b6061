import { randomInt } from 'node:crypto'
import type { Admin } from 'kafkajs'
import { unavailable } from '@sluice/runtime/errors'
import type { LineLogger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import type { EventLog, LogConsumer } from '../log.ts'
import {
  adminCallTimeoutMs,
  createKafkaAdmin,
  createKafkaClient,
  describeKafkaError,
  type KafkaAdmin,
  kafkaErrorType,
} from './client.ts'
import { createKafkaConsumer } from './consumer.ts'
import { forwardKafkaLogs } from './forward-logs.ts'
import type { KafkaGroupTimes } from './group-times.ts'
import { copyCommittedOffsets, fetchOffsets, kafkaGroup, startOffset } from './offsets.ts'
import { createKafkaPublisher } from './publisher.ts'
import type { KafkaAddress } from './url.ts'

/** If a request gets no response for this time, it fails and its connection is destroyed. */
const requestTimeoutMs = 5000
/** Shorter for producing, because clients wait for the acknowledgement. */
const produceTimeoutMs = 2500
/** Brokers answer these requests from memory, and other members of the group may wait for the result. */
const adminRequestTimeoutMs = 2000
const checkTimeoutMs = 2000
/** Requests to a slow broker are repeated for this long. */
const repeatTimeoutMs = 10_000
/** If Kafka has never had a consumer group, it first creates the topic `__consumer_offsets`, which takes seconds. */
const groupOffsetsTimeoutMs = 20_000
/** Errors of brokers that respond too late, or that have just resumed and do not lead their partitions yet. */
const resumingTypes = [
  'KafkaJSRequestTimeoutError',
  'KafkaJSConnectionClosedError',
  'NO_METADATA',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
]
/** These errors, and those of brokers that have just started or have just created `__consumer_offsets`. */
const startingTypes = [
  ...resumingTypes,
  'KafkaJSConnectionError',
  'GROUP_LOAD_IN_PROGRESS',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'NOT_COORDINATOR_FOR_GROUP',
  'KafkaJSGroupCoordinatorNotFound',
]
const repeatDelays = { firstMs: 200, longestMs: 200 }

interface Repetition {
  /** Types of the errors after which requests are repeated. */
  types: readonly string[]
  /** Time limit of one call in ms; a call may send several requests. */
  callTimeoutMs: number
  /** Time limit of all calls together in ms. */
  timeoutMs: number
}

export interface KafkaLogOptions extends Partial<KafkaGroupTimes> {
  logger: LineLogger
  /** Shown in the brokers' logs and quotas. Default `sluice`. */
  clientId?: string
  /**
   * Maximum bytes of unacknowledged publishes. Above this limit, publishes fail with AppError `unavailable` at once.
   * Default 128 MiB.
   */
  unacknowledgedBytesMax?: number
}

/**
 * The event log in a Kafka topic, which must exist (ensure-topics.ts creates it). Returns without waiting for Kafka.
 * While Kafka is unavailable, calls throw AppError `unavailable`, and consumers wait.
 */
export function openKafkaLog(address: KafkaAddress, options: KafkaLogOptions): EventLog {
  const { logger, clientId = 'sluice' } = options
  const { topic } = address
  const times: KafkaGroupTimes = {
    sessionTimeoutMs: options.sessionTimeoutMs ?? 10_000,
    heartbeatIntervalMs: options.heartbeatIntervalMs ?? 1000,
    rebalanceTimeoutMs: options.rebalanceTimeoutMs ?? 15_000,
  }
  const forward = forwardKafkaLogs(logger)
  // kafkajs first connects to the first broker of its list, even if that broker does not respond. Each client therefore
  // gets the brokers in another order.
  let firstBroker = randomInt(address.brokers.length)
  const rotateBrokers = () => {
    firstBroker = (firstBroker + 1) % address.brokers.length
    return [...address.brokers.slice(firstBroker), ...address.brokers.slice(0, firstBroker)]
  }
  const createClient = (retries: number, timeoutMs: number) => () =>
    createKafkaClient({
      address: { ...address, brokers: rotateBrokers() },
      logger,
      forward,
      clientId,
      requestTimeoutMs: timeoutMs,
      retry: { retries, initialRetryTime: 100, maxRetryTime: 500, factor: 0.2, multiplier: 2 },
    })
  const admin = createKafkaAdmin(createClient(2, adminRequestTimeoutMs))
  /** Admin connection for commands. They can wait longer, which is necessary when their group is new. */
  const slowAdmin = createKafkaAdmin(createClient(40, adminRequestTimeoutMs))
  const consumers = new Set<LogConsumer>()
  let closing: Promise<void> | undefined
  let partitionCount: number | undefined
  let clusterId: string | undefined

  /**
   * Throws AppError `unavailable` for a failure of Kafka. If the topic is missing, it names the command that creates the
   * topic. kafkajs's error of a refused password has neither a type nor a code, which `/readyz` shows.
   */
  const throwUnavailable = (error: unknown): never => {
    const reason = describeKafkaError(error)
    const isMissing = reason.startsWith('UNKNOWN_TOPIC_OR_PARTITION')
    const isRefusedPassword = kafkaErrorType(error) === 'KafkaJSSASLAuthenticationError'
    const cause = isRefusedPassword ? { code: 'SASL_AUTHENTICATION_FAILED' } : error
    throw unavailable(isMissing ? `Kafka has no topic ${topic}: npm run migrate makes it` : `Kafka: ${reason}`, cause)
  }

  const repeated =
    (connection: KafkaAdmin, { types, callTimeoutMs, timeoutMs }: Repetition) =>
    <T>(work: (kafkajsAdmin: Admin) => Promise<T>): Promise<T> =>
      retry(() => connection.use((kafkajsAdmin) => work(kafkajsAdmin).catch(throwMetadataError), callTimeoutMs), {
        isPermanent: (error) => !types.includes(kafkaErrorType(error) ?? ''),
        delays: repeatDelays,
        timeoutMs,
      }).catch(throwUnavailable)

  /** Runs requests that brokers answer from memory. Repeats them for 10 s while a broker is slow or resumes. */
  const request = repeated(admin, {
    types: resumingTypes,
    callTimeoutMs: adminCallTimeoutMs,
    timeoutMs: repeatTimeoutMs,
  })

  /**
   * Runs requests about a group, and repeats them for 20 s while the group's coordinator is not ready or does not
   * answer.
   */
  const coordinated = repeated(slowAdmin, {
    types: startingTypes,
    callTimeoutMs: groupOffsetsTimeoutMs,
    timeoutMs: groupOffsetsTimeoutMs,
  })

  async function fetchPartitionCount(kafkajsAdmin: Admin): Promise<number> {
    const { topics } = await kafkajsAdmin.fetchTopicMetadata({ topics: [topic] })
    const count = topics.find(({ name }) => name === topic)?.partitions.length ?? 0
    if (count === 0) throw new Error(`there is no topic ${topic}`)
    return count
  }

  /** The leaders' high watermarks: all in-sync replicas have every record below these offsets. */
  async function fetchEndOffsets(kafkajsAdmin: Admin): Promise<bigint[]> {
    // kafkajs's admin client requests the partitions and leaders at each call.
    const offsets = await kafkajsAdmin.fetchTopicOffsets(topic)
    return offsets.sort((a, b) => a.partition - b.partition).map(({ high }) => BigInt(high))
  }

  async function fetchOffsetsForTime(kafkajsAdmin: Admin, time: number): Promise<bigint[]> {
    const offsets = await kafkajsAdmin.fetchTopicOffsetsByTimestamp(topic, time)
    return offsets.sort((a, b) => a.partition - b.partition).map(({ offset }) => BigInt(offset))
  }

  async function partitions(): Promise<number> {
    partitionCount ??= await request(fetchPartitionCount)
    return partitionCount
  }

  const publisher = createKafkaPublisher({
    topic,
    createClient: createClient(1, produceTimeoutMs),
    partitions,
    unacknowledgedBytesMax: options.unacknowledgedBytesMax ?? 128 * 1024 * 1024,
    logger,
  })

  async function close(): Promise<void> {
    await publisher.close()
    await Promise.all([...consumers].map((each) => each.stop()))
    await Promise.all([admin.close(), slowAdmin.close()])
  }

  return {
    partitions,
    async id() {
      clusterId ??= (await request((kafkajsAdmin) => kafkajsAdmin.describeCluster())).clusterId
      return `${clusterId}.${topic}`
    },
    publish: (blocks, publishOptions) => publisher.publish(blocks, publishOptions),
    consumer(consumerOptions) {
      const onRunning = (consumer: LogConsumer, running: boolean) => {
        if (running) consumers.add(consumer)
        else consumers.delete(consumer)
      }
      const context = {
        topic,
        partitions,
        createClient: createClient(3, requestTimeoutMs),
        admin,
        times,
        logger,
        onRunning,
      }
      const consumer = createKafkaConsumer(context, consumerOptions)
      const run = () =>
        closing === undefined ? consumer.run() : Promise.reject(unavailable('The event log is closed'))
      return { ...consumer, run }
    },
    async committedOffsets(group) {
      const offsets = await coordinated((kafkajsAdmin) => fetchOffsets(kafkajsAdmin, kafkaGroup(topic, group), topic))
      return [...offsets].map(([partition, known]) => ({
        partition,
        offset: startOffset(known),
        endOffset: known.high,
      }))
    },
    replaceGroup: (from, to) =>
      coordinated((kafkajsAdmin) =>
        copyCommittedOffsets(kafkajsAdmin, topic, kafkaGroup(topic, from), kafkaGroup(topic, to)),
      ),
    keepOnlyGroup: () => Promise.resolve(),
    endOffsets: () => request(fetchEndOffsets),
    offsetsForTime: (time) => request((kafkajsAdmin) => fetchOffsetsForTime(kafkajsAdmin, time)),
    async check() {
      if (closing !== undefined) throw unavailable('The event log is closed')
      await admin
        .use((kafkajsAdmin) => kafkajsAdmin.fetchTopicMetadata({ topics: [topic] }), checkTimeoutMs)
        .catch(throwUnavailable)
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

class NoMetadataError extends Error {
  /** The property that kafkajs's errors have; see `kafkaErrorType`. */
  readonly type = 'NO_METADATA'
}

/**
 * Replaces kafkajs's TypeError, which `retry` would not repeat, by NoMetadataError. kafkajs ignores that its request
 * for metadata failed at every broker, and then reads the metadata that it did not receive.
 */
function throwMetadataError(error: unknown): never {
  throw error instanceof TypeError ? new NoMetadataError('No broker sent metadata', { cause: error }) : error
}
