import { CompressionTypes, type Producer, type RecordMetadata } from 'kafkajs'
import { withDeadline } from '@sluice/runtime/deadline'
import { unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { sleep } from '@sluice/runtime/sleep'
import { type Block, payloadBytes } from '../block.ts'
import { compressBlocks } from '../compression.ts'
import type { PublishOptions } from '../log.ts'
import { describeKafkaError, isRefusal, type KafkaClient, kafkaErrorType } from './client.ts'
import { encodeRecord } from './record.ts'

// Payloads are compressed before this point, because kafkajs's codecs would first copy all bytes into one buffer.
const compression = CompressionTypes.None

/** Kafka's default for `max.message.bytes`, minus the bytes of Kafka's own headers. */
const requestBytesMax = 1_000_000
/** Upper estimate for the lengths, timestamp and headers of one record, without the header of a dead letter. */
const recordOverheadBytes = 192
/**
 * Delays before blocks are sent again, for example while a partition changes its leader. Each delay is twice as long as
 * the previous one.
 */
const resendDelayMs = { first: 50, longest: 400 }
/** Errors that a retry can't resolve. */
const permanentErrorTypes = [
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'INVALID_RECORD',
]
const metadataAgeMsMax = 5000
const reconnectMsMin = 100
const reconnectMsMax = 2000
const disconnectTimeoutMs = 2000

export interface KafkaPublisherOptions {
  topic: string
  createClient: () => KafkaClient
  /** Number of partitions of the topic; rejects while Kafka is unavailable. */
  partitions: () => Promise<number>
  /**
   * Maximum bytes of unacknowledged publishes, before compression. Above this limit, publishes fail at once: kafkajs
   * keeps a request until it times out, even if our deadline has passed.
   */
  unacknowledgedBytesMax: number
  logger: Pick<Logger, 'debug' | 'warn'>
}

/** Publishes blocks to one topic. */
export interface KafkaPublisher {
  /** See `EventLog.publish`. */
  publish(blocks: readonly Block[], options: PublishOptions): Promise<void>
  /** Waits for the running publishes (each has its deadline), then disconnects. */
  close(): Promise<void>
}

/** What the requests of one publish have in common. */
interface Sending {
  timeoutMs: number
  /** Aborted at the publish's deadline, or earlier when the publish has failed. */
  deadlineSignal: AbortSignal
  /** To be called with blocks that Kafka has acknowledged, once for each block. */
  noteAcknowledged: (blocks: readonly Block[]) => void
}

/**
 * Publishes with acknowledgements of all in-sync replicas. Connects at the first publish and reconnects when necessary.
 */
export function createKafkaPublisher(options: KafkaPublisherOptions): KafkaPublisher {
  const { topic, logger } = options
  const closed = new AbortController()
  const inFlight = new Set<Promise<unknown>>()
  let client: KafkaClient | undefined
  let connecting: Promise<Producer> | undefined
  let connected: Producer | undefined
  const waiters = new Set<PromiseWithResolvers<Producer>>()
  let unacknowledgedBytes = 0

  async function connect(): Promise<Producer> {
    for (let waitMs = reconnectMsMin; ; waitMs = Math.min(2 * waitMs, reconnectMsMax)) {
      const newClient = options.createClient()
      const producer = newClient.kafka.producer({
        allowAutoTopicCreation: false,
        idempotent: false,
        // kafkajs would retry after our deadline, and may report a partition as written that it never sent: see
        // `unacknowledged`.
        retry: { retries: 0 },
        // kafkajs learns of new leaders when a broker refuses a request or a connection is lost, but not when a broker
        // does not respond.
        metadataMaxAge: metadataAgeMsMax,
        // The gateway chose the partition; every block carries it.
        createPartitioner:
          () =>
          ({ message }) =>
            message.partition ?? 0,
      })
      producer.on(producer.events.REQUEST_TIMEOUT, ({ payload }) => newClient.destroyConnections(payload.broker))
      try {
        await producer.connect()
        client = newClient
        return producer
      } catch (error) {
        logger.warn({ reason: describeKafkaError(error), waitMs }, 'Kafka unavailable, reconnecting producer')
        await newClient.close(() => producer.disconnect(), disconnectTimeoutMs)
      }
      await sleep(waitMs, closed.signal)
      if (closed.signal.aborted) throw new Error('The event log is closed')
    }
  }

  function startConnecting(): Promise<Producer> {
    const attempt = connect()
    attempt.then(
      (producer) => {
        connected = producer
        for (const { resolve } of waiters) resolve(producer)
      },
      (error: unknown) => {
        connecting = undefined
        for (const { reject } of waiters) reject(error)
      },
    )
    return attempt
  }

  /**
   * Resolves to the connected producer; rejects when `deadlineSignal` aborts first. It does not use `Promise.race`,
   * which would leave its reactions on the connecting promise for as long as Kafka is unavailable.
   */
  async function connectedProducer(deadlineSignal: AbortSignal): Promise<Producer> {
    if (connected) return connected
    const waiter = Promise.withResolvers<Producer>()
    const rejectWaiter = () => waiter.reject(new Error('not connected in time'))
    if (deadlineSignal.aborted) rejectWaiter()
    deadlineSignal.addEventListener('abort', rejectWaiter)
    waiters.add(waiter)
    connecting ??= startConnecting()
    try {
      return await waiter.promise
    } finally {
      waiters.delete(waiter)
      deadlineSignal.removeEventListener('abort', rejectWaiter)
    }
  }

  async function send(
    blocks: readonly Block[],
    { timeoutMs, onDurable }: PublishOptions,
    deadlineSignal: AbortSignal,
  ): Promise<void> {
    const count = await options.partitions()
    for (const { partition } of blocks) {
      // kafkajs would drop such a record and report success.
      if (!Number.isInteger(partition) || partition < 0 || partition >= count) {
        throw new RangeError(`The topic ${topic} has no partition ${partition}`)
      }
    }
    const producer = await connectedProducer(deadlineSignal)
    const noteAcknowledged = onDurable === undefined ? () => undefined : reportPartitions(blocks, onDurable)
    for (const request of splitIntoRequests(compressBlocks(blocks)))
      await sendRequest(producer, request, { timeoutMs, deadlineSignal, noteAcknowledged })
  }

  /**
   * Repeats sending until the blocks are acknowledged, or until `deadlineSignal` aborts because the publish has failed.
   * kafkajs names only the first partition that a broker refused. After a refusal, each partition is therefore sent in
   * its own request: in a common request, the other partitions would append their blocks at every attempt.
   */
  async function sendRequest(
    producer: Producer,
    blocks: readonly Block[],
    { timeoutMs, deadlineSignal, noteAcknowledged }: Sending,
  ) {
    /**
     * Sends blocks in one request. Resolves to the blocks that must be sent again, one array for each further request.
     */
    const attempt = async (pending: readonly Block[]): Promise<(readonly Block[])[]> => {
      try {
        const topicMessages = [{ topic, messages: pending.map(encodeRecord) }]
        const acknowledged = await producer.sendBatch({
          acks: -1,
          timeout: timeoutMs,
          compression,
          topicMessages,
        })
        const missing = unacknowledged(pending, acknowledged)
        if (!deadlineSignal.aborted) noteAcknowledged(pending.filter((block) => !missing.includes(block)))
        if (missing.length === 0) return []
        logger.debug({ topic, blocks: missing.length }, 'produce response lacks acknowledgements, resending blocks')
        return [missing]
      } catch (error) {
        if (permanentErrorTypes.includes(kafkaErrorType(error) ?? '')) throw error
        logger.debug({ topic, reason: describeKafkaError(error) }, 'produce request failed, resending blocks')
        return isRefusal(error) ? [...Map.groupBy(pending, ({ partition }) => partition).values()] : [pending]
      }
    }
    let requests: readonly (readonly Block[])[] = [blocks]
    for (let delayMs = resendDelayMs.first; !deadlineSignal.aborted; delayMs *= 2) {
      requests = (await Promise.all(requests.map(attempt))).flat()
      if (requests.length === 0) return
      await sleep(Math.min(delayMs, resendDelayMs.longest), deadlineSignal)
    }
    throw new Error('not acknowledged in time')
  }

  async function publish(blocks: readonly Block[], publishOptions: PublishOptions): Promise<void> {
    const { timeoutMs } = publishOptions
    const bytes = payloadBytes(blocks)
    if (unacknowledgedBytes > 0 && unacknowledgedBytes + bytes > options.unacknowledgedBytesMax) {
      throw unavailable(`Kafka has not acknowledged ${unacknowledgedBytes} bytes given to it before`)
    }
    const deadline = new AbortController()
    unacknowledgedBytes += bytes
    const sent = send(blocks, publishOptions, deadline.signal).finally(() => {
      unacknowledgedBytes -= bytes
    })
    try {
      await withDeadline(sent, timeoutMs, () => {
        deadline.abort()
        return new Error(`not acknowledged within ${timeoutMs} ms`)
      })
    } catch (error) {
      // Ends the other requests of the publish, which has settled.
      deadline.abort()
      if (error instanceof RangeError) throw error
      throw unavailable(`Kafka did not accept the blocks: ${describeKafkaError(error)}`, error)
    }
  }

  return {
    async publish(blocks, publishOptions) {
      if (closed.signal.aborted) throw unavailable('The event log is closed')
      if (blocks.length === 0) return
      const published = publish(blocks, publishOptions)
      inFlight.add(published)
      try {
        await published
      } finally {
        inFlight.delete(published)
      }
    },
    async close() {
      await Promise.allSettled(inFlight)
      closed.abort()
      const last = await connecting?.catch(() => undefined)
      if (last !== undefined) await client?.close(() => last.disconnect(), disconnectTimeoutMs)
    },
  }
}

/**
 * Kafka limits the bytes that one request appends to one partition (`max.message.bytes`, 1 MiB by default), not the
 * single block. A larger publish becomes several requests, one after the other, so that the order is kept. The first
 * one has blocks of all partitions, so that no partition waits for one that refuses writes.
 */
export function splitIntoRequests(blocks: readonly Block[]): Block[][] {
  const requests: Block[][] = []
  /** The latest request with blocks of a partition, and their bytes in that request. */
  const latest = new Map<number, { index: number; bytes: number }>()
  for (const block of blocks) {
    const { payload, headers } = block
    const letterBytes = headers.letter ? Buffer.byteLength(JSON.stringify(headers.letter)) : 0
    const blockBytes = payload.length + letterBytes + recordOverheadBytes
    const { index, bytes } = latest.get(block.partition) ?? { index: 0, bytes: 0 }
    const fits = bytes === 0 || bytes + blockBytes <= requestBytesMax
    const place = fits ? { index, bytes: bytes + blockBytes } : { index: index + 1, bytes: blockBytes }
    latest.set(block.partition, place)
    ;(requests[place.index] ??= []).push(block)
  }
  return requests
}

/**
 * Returns a function that takes acknowledged blocks. It calls `onDurable` with the partitions whose blocks are all
 * acknowledged, unless all blocks of the publish are: that is reported by the publish's promise.
 */
function reportPartitions(
  blocks: readonly Block[],
  onDurable: (partitions: readonly number[]) => void,
): (acknowledged: readonly Block[]) => void {
  const missing = new Map<number, number>()
  for (const { partition } of blocks) missing.set(partition, (missing.get(partition) ?? 0) + 1)
  return (acknowledged) => {
    const durable: number[] = []
    for (const { partition } of acknowledged) {
      const left = (missing.get(partition) ?? 0) - 1
      missing.set(partition, left)
      if (left > 0) continue
      missing.delete(partition)
      durable.push(partition)
    }
    if (durable.length > 0 && missing.size > 0) onDurable(durable)
  }
}

/**
 * The blocks of partitions that no response acknowledges. kafkajs drops records of a partition that it does not know.
 * It also keeps one response per broker across its own retries: when a partition's leader moved to a broker that had
 * already responded, kafkajs never sent the partition's records and reported success (seen when brokers were killed).
 */
function unacknowledged(blocks: readonly Block[], acknowledged: readonly RecordMetadata[]): Block[] {
  const partitions = new Set(acknowledged.filter(({ errorCode }) => errorCode === 0).map(({ partition }) => partition))
  return blocks.filter(({ partition }) => !partitions.has(partition))
}
