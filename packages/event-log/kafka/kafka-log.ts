import { randomInt } from 'node:crypto'
import type { Admin } from 'kafkajs'
import { unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import type { EventLog, LogConsumer } from '../log.ts'
import { createKafkaAdmin, createKafkaClient, describeKafkaError, type KafkaAdmin, kafkaErrorType } from './client.ts'
import { createKafkaConsumer } from './consumer.ts'
import { forwardKafkaLogs } from './forward-logs.ts'
import type { KafkaGroupTimes } from './group-times.ts'
import { copyCommittedOffsets, fetchOffsets, kafkaGroup, startOffset } from './offsets.ts'
import { createKafkaPublisher } from './publisher.ts'
import type { KafkaAddress } from './url.ts'

/** A request without a response for this long fails, and its connection is destroyed. */
const requestTimeoutMs = 5000
/** Shorter for producing, because clients wait for the acknowledgement. */
const produceTimeoutMs = 2500
/** Brokers respond to these requests from memory, and a group may be waiting for the result. */
const adminTimeoutMs = 2000
const checkTimeoutMs = 2000
const adminCallTimeoutMs = 5000
/** A slow broker is asked again for this long. */
const repeatTimeoutMs = 10_000
/** A broker that never had a group first creates the topic for the positions, which takes seconds. */
const positionsTimeoutMs = 20_000
/** Errors of brokers that do not answer in time, or have just resumed and do not lead their partitions yet. */
const resumingTypes = [
  'KafkaJSRequestTimeoutError',
  'KafkaJSConnectionClosedError',
  'NO_METADATA',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
]
/** The same, and errors of brokers that have just started or have just created `__consumer_offsets`. */
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
  requestTimeoutMs: number
  timeoutMs: number
}

export interface KafkaLogOptions extends Partial<KafkaGroupTimes> {
  logger: Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>
  /** Shown in the brokers' logs and quotas. Default `sluice`. */
  clientId?: string
  /** Bytes that kafkajs may hold without Kafka's acknowledgement before publishes get 503 at once. Default 128 MiB. */
  unacknowledgedBytesMax?: number
}

/**
 * The event log in a Kafka topic, which must exist (ensure-topics.ts creates it). Returns at once, also while Kafka is
 * unavailable: calls then throw AppError `unavailable`, and consumers wait.
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
  // kafkajs always connects to the first broker of its list, even an unresponsive one: each client gets another order.
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
  const admin = createKafkaAdmin(createClient(2, adminTimeoutMs))
  /** Admin connection of commands, which can wait longer, and must when their group is new. */
  const slowAdmin = createKafkaAdmin(createClient(40, adminTimeoutMs))
  const consumers = new Set<LogConsumer>()
  let closing: Promise<void> | undefined
  let partitionCount: number | undefined
  let clusterId: string | undefined

  const repeat = <T>(
    connection: KafkaAdmin,
    work: (kafkajsAdmin: Admin) => Promise<T>,
    { types, requestTimeoutMs: ms, timeoutMs }: Repetition,
  ): Promise<T> =>
    retry(() => connection.use((kafkajsAdmin) => work(kafkajsAdmin).catch(throwMetadataError), ms), {
      isPermanent: (error) => !types.includes(kafkaErrorType(error) ?? ''),
      delays: repeatDelays,
      timeoutMs,
    })

  /** Runs requests that brokers respond to from memory; repeats them for 10 s while a broker is slow or resumes. */
  const request = <T>(work: (kafkajsAdmin: Admin) => Promise<T>): Promise<T> =>
    repeat(admin, work, { types: resumingTypes, requestTimeoutMs: adminCallTimeoutMs, timeoutMs: repeatTimeoutMs })

  async function fetchPartitionCount(): Promise<number> {
    const { topics } = await request((kafkajsAdmin) => kafkajsAdmin.fetchTopicMetadata({ topics: [topic] }))
    const count = topics.find(({ name }) => name === topic)?.partitions.length ?? 0
    if (count === 0) throw new Error(`there is no topic ${topic}`)
    return count
  }

  /** The leaders' high watermarks: all in-sync replicas have every record below them. */
  async function fetchEndOffsets(kafkajsAdmin: Admin): Promise<bigint[]> {
    // kafkajs's admin requests partitions and leaders anew at each call.
    const offsets = await kafkajsAdmin.fetchTopicOffsets(topic)
    return offsets.sort((a, b) => a.partition - b.partition).map(({ high }) => BigInt(high))
  }

  async function fetchOffsetsForTime(kafkajsAdmin: Admin, time: number): Promise<bigint[]> {
    const offsets = await kafkajsAdmin.fetchTopicOffsetsByTimestamp(topic, time)
    return offsets.sort((a, b) => a.partition - b.partition).map(({ offset }) => BigInt(offset))
  }

  /** AppError `unavailable` for a failure of Kafka; names the command to run when the topic is missing. */
  const toUnavailable = (error: unknown) => {
    const reason = describeKafkaError(error)
    const isMissing = reason.startsWith('UNKNOWN_TOPIC_OR_PARTITION')
    return unavailable(isMissing ? `Kafka has no topic ${topic}: npm run migrate makes it` : `Kafka: ${reason}`, error)
  }

  /** Runs requests about a group, whose coordinator may not be ready or may not answer yet, for 20 s. */
  const coordinated = <T>(work: (kafkajsAdmin: Admin) => Promise<T>): Promise<T> =>
    repeat(slowAdmin, work, {
      types: startingTypes,
      requestTimeoutMs: positionsTimeoutMs,
      timeoutMs: positionsTimeoutMs,
    })

  async function partitions(): Promise<number> {
    try {
      partitionCount ??= await fetchPartitionCount()
      return partitionCount
    } catch (error) {
      throw toUnavailable(error)
    }
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
      try {
        clusterId ??= (await request((kafkajsAdmin) => kafkajsAdmin.describeCluster())).clusterId
        return `${clusterId}.${topic}`
      } catch (error) {
        throw toUnavailable(error)
      }
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
      try {
        const offsets = await coordinated((kafkajsAdmin) => fetchOffsets(kafkajsAdmin, kafkaGroup(topic, group), topic))
        return [...offsets].map(([partition, known]) => ({
          partition,
          offset: startOffset(known),
          endOffset: known.high,
        }))
      } catch (error) {
        throw toUnavailable(error)
      }
    },
    async replaceGroup(from, to) {
      try {
        await coordinated((kafkajsAdmin) =>
          copyCommittedOffsets(kafkajsAdmin, topic, kafkaGroup(topic, from), kafkaGroup(topic, to)),
        )
      } catch (error) {
        throw toUnavailable(error)
      }
    },
    async endOffsets() {
      try {
        return await request(fetchEndOffsets)
      } catch (error) {
        throw toUnavailable(error)
      }
    },
    async offsetsForTime(time) {
      try {
        return await request((kafkajsAdmin) => fetchOffsetsForTime(kafkajsAdmin, time))
      } catch (error) {
        throw toUnavailable(error)
      }
    },
    async check() {
      if (closing !== undefined) throw unavailable('The event log is closed')
      try {
        await admin.use((kafkajsAdmin) => kafkajsAdmin.fetchTopicMetadata({ topics: [topic] }), checkTimeoutMs)
      } catch (error) {
        throw toUnavailable(error)
      }
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

class NoMetadataError extends Error {
  /** As kafkajs's errors have; see `kafkaErrorType`. */
  readonly type = 'NO_METADATA'
}

/**
 * Throws NoMetadataError for kafkajs's TypeError, which `retry` would not repeat: kafkajs ignores that its request for
 * metadata failed at each broker, and reads the metadata that it did not receive.
 */
function throwMetadataError(error: unknown): never {
  throw error instanceof TypeError ? new NoMetadataError('No broker sent metadata', { cause: error }) : error
}
