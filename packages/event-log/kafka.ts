import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Admin } from 'kafkajs'
import { unavailable } from '@sluice/contracts/errors'
import { createKafkaAdmin, createKafkaClient, describeKafkaError, kafkaErrorType } from './kafka-client.ts'
import { createKafkaConsumer } from './kafka-consumer.ts'
import { forwardKafkaLines } from './kafka-lines.ts'
import { fetchOffsets, kafkaGroup, startOffset } from './kafka-offsets.ts'
import { createKafkaPublisher } from './kafka-producer.ts'
import type { KafkaGroupTimes } from './kafka-session.ts'
import type { KafkaAddress } from './kafka-url.ts'
import type { EventLog, LogConsumer } from './log.ts'
import type { EventLogLogger } from './logger.ts'

/** A broker that leaves a request unanswered for so long is cut off. */
const requestTimeoutMs = 5000
/** Less for producing: what waits there are clients. */
const produceTimeoutMs = 2500
/** Answered from memory, and wanted when the group waits for it. */
const adminTimeoutMs = 2000
const checkTimeoutMs = 2000
const askTimeoutMs = 5000
/** A broker that never had a group first makes the topic that keeps their positions, which takes it seconds. */
const positionsTimeoutMs = 20_000

export interface KafkaLogOptions extends Partial<KafkaGroupTimes> {
  logger: EventLogLogger
  /** Shown in the brokers' logs and quotas. Default `sluice`. */
  clientId?: string
  /** Bytes that kafkajs may hold without Kafka's acknowledgement before publishes get 503 at once. Default 128 MiB. */
  unacknowledgedBytesMax?: number
}

/**
 * The event log in a Kafka topic, which must exist (ensure-topics.ts makes it). Returns at once, whether Kafka is there
 * or not: calls answer 503, and consumers wait, until it is.
 */
export function openKafkaLog(address: KafkaAddress, options: KafkaLogOptions): EventLog {
  const { logger, clientId = 'sluice' } = options
  const { topic } = address
  const times: KafkaGroupTimes = {
    sessionTimeoutMs: options.sessionTimeoutMs ?? 10_000,
    heartbeatIntervalMs: options.heartbeatIntervalMs ?? 1000,
    rebalanceTimeoutMs: options.rebalanceTimeoutMs ?? 15_000,
  }
  const forward = forwardKafkaLines(logger)
  // kafkajs always asks the first broker first, however silent it is: each client gets another one to begin with.
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
  /** For a command, which can wait, and must when its group is new. */
  const patientAdmin = createKafkaAdmin(createClient(40, adminTimeoutMs))
  const consumers = new Set<LogConsumer>()
  let closing: Promise<void> | undefined
  let partitionCount: number | undefined
  let clusterId: string | undefined

  async function fetchPartitionCount(): Promise<number> {
    const { topics } = await admin.use((asked) => asked.fetchTopicMetadata({ topics: [topic] }), askTimeoutMs)
    const count = topics.find(({ name }) => name === topic)?.partitions.length ?? 0
    if (count === 0) throw new Error(`there is no topic ${topic}`)
    return count
  }

  /** The leaders' high watermarks, below which lies whatever all replicas in sync have. */
  async function fetchEnds(asked: Admin): Promise<bigint[]> {
    // An admin of kafkajs looks up partitions and leaders at each call.
    const offsets = await asked.fetchTopicOffsets(topic)
    return offsets.sort((a, b) => a.partition - b.partition).map(({ high }) => BigInt(high))
  }

  /** Names the topic and what to do, for the one mistake that is easily made. */
  const explain = (error: unknown) => {
    const reason = describeKafkaError(error)
    const isMissing = reason.startsWith('UNKNOWN_TOPIC_OR_PARTITION')
    return unavailable(isMissing ? `Kafka has no topic ${topic}: npm run migrate makes it` : `Kafka: ${reason}`, error)
  }

  async function partitions(): Promise<number> {
    try {
      partitionCount ??= await fetchPartitionCount()
      return partitionCount
    } catch (error) {
      throw explain(error)
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
    await Promise.all([admin.close(), patientAdmin.close()])
  }

  return {
    partitions,
    async id() {
      try {
        clusterId ??= (await admin.use((asked) => asked.describeCluster(), askTimeoutMs)).clusterId
        return `${clusterId}.${topic}`
      } catch (error) {
        throw explain(error)
      }
    },
    publish: (blocks, { timeoutMs }) => publisher.publish(blocks, timeoutMs),
    consumer(consumerOptions) {
      const onRunning = (consumer: LogConsumer, running: boolean) => {
        if (running) consumers.add(consumer)
        else consumers.delete(consumer)
      }
      const context = { topic, createClient: createClient(3, requestTimeoutMs), admin, times, logger, onRunning }
      const consumer = createKafkaConsumer(context, consumerOptions)
      const run = () =>
        closing === undefined ? consumer.run() : Promise.reject(unavailable('The event log is closed'))
      return { ...consumer, run }
    },
    async positions(group) {
      try {
        const work = (asked: Admin) => fetchOffsets(asked, kafkaGroup(topic, group), topic)
        const offsets = await untilCoordinated(() => patientAdmin.use(work, positionsTimeoutMs))
        return [...offsets].map(([partition, known]) => ({ partition, next: startOffset(known), end: known.high }))
      } catch (error) {
        throw explain(error)
      }
    },
    async ends() {
      try {
        return await admin.use(fetchEnds, askTimeoutMs)
      } catch (error) {
        throw explain(error)
      }
    },
    async check() {
      if (closing !== undefined) throw unavailable('The event log is closed')
      try {
        await admin.use((asked) => asked.fetchTopicMetadata({ topics: [topic] }), checkTimeoutMs)
      } catch (error) {
        throw explain(error)
      }
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

/** What a broker says while it gets to know its groups, just started or just made their topic. */
const uncoordinatedTypes = ['GROUP_LOAD_IN_PROGRESS', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR_FOR_GROUP']
const coordinationPauseMs = 200

/** Asks again while the broker says so, for as long as one question may take. */
async function untilCoordinated<T>(ask: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + positionsTimeoutMs
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const isEarly = uncoordinatedTypes.includes(kafkaErrorType(error) ?? '')
      if (!isEarly || performance.now() > deadline) throw error
      await setTimeout(coordinationPauseMs)
    }
  }
}
