import type { Block } from '@sluice/contracts/block'
import { unavailable } from '@sluice/contracts/errors'
import { CompressionTypes, type Producer, type RecordMetadata } from 'kafkajs'
import { compressBlocks } from './compression.ts'
import { withDeadline } from '@sluice/runtime/deadline'
import { pause } from '@sluice/runtime/supervisor'
import { describeKafkaError, kafkaErrorType, type KafkaClient } from './kafka-client.ts'
import { encodeRecord } from './kafka-record.ts'
import type { EventLogLogger } from './logger.ts'

// Payloads are compressed before they get here: kafkajs's codecs would copy and add up the bytes first.
const compression = CompressionTypes.None

/** Kafka's default for `max.message.bytes`, less what its own headers take. */
const requestBytesMax = 1_000_000
/** Lengths, headers and timestamps of one record, generously. */
const recordOverheadBytes = 128
/** While a partition changes its leader, for one. */
const resendMs = 50
/** What no repetition would change. */
const refusedTypes = [
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
  /** Number of partitions of the topic; rejects while Kafka is away. */
  partitions: () => Promise<number>
  /**
   * Of publishes under way, before compression. kafkajs holds on to a request until it times out, whatever our deadline:
   * above so many bytes it gets no more.
   */
  unacknowledgedBytesMax: number
  logger: EventLogLogger
}

export interface KafkaPublisher {
  publish(blocks: readonly Block[], timeoutMs: number): Promise<void>
  /** Waits for publishes under way (each has its deadline), then disconnects. */
  close(): Promise<void>
}

/** Publishes with acks from all in-sync replicas. Connects at the first publish, and again whenever it has to. */
export function createKafkaPublisher(options: KafkaPublisherOptions): KafkaPublisher {
  const { topic, logger } = options
  const closed = new AbortController()
  const underWay = new Set<Promise<unknown>>()
  let client: KafkaClient | undefined
  let connecting: Promise<Producer> | undefined
  let connected: Producer | undefined
  const waiting = new Set<PromiseWithResolvers<Producer>>()
  let unacknowledgedBytes = 0

  async function connect(): Promise<Producer> {
    for (let waitMs = reconnectMsMin; ; waitMs = Math.min(2 * waitMs, reconnectMsMax)) {
      const fresh = options.createClient()
      const producer = fresh.kafka.producer({
        allowAutoTopicCreation: false,
        idempotent: false,
        // It would go on after our deadline, and may count a partition as written that it never sent: see `verify`.
        retry: { retries: 0 },
        // kafkajs learns of new leaders from a broker's refusal or a lost connection, but not from silence.
        metadataMaxAge: metadataAgeMsMax,
        // The gateway chose the partition; every block carries it.
        createPartitioner:
          () =>
          ({ message }) =>
            message.partition ?? 0,
      })
      producer.on(producer.events.REQUEST_TIMEOUT, ({ payload }) => {
        fresh.cutOff(payload.broker)
      })
      try {
        await producer.connect()
        client = fresh
        return producer
      } catch (error) {
        logger.warn({ reason: describeKafkaError(error), waitMs }, 'Kafka is away, the producer tries again')
        await fresh.close(() => producer.disconnect(), disconnectTimeoutMs)
      }
      await pause(waitMs, closed.signal)
      if (closed.signal.aborted) throw new Error('The event log is closed')
    }
  }

  function startConnecting(): Promise<Producer> {
    const attempt = connect()
    attempt.then(
      (fresh) => {
        connected = fresh
        for (const { resolve } of waiting) resolve(fresh)
      },
      (error: unknown) => {
        connecting = undefined
        for (const { reject } of waiting) reject(error)
      },
    )
    return attempt
  }

  /** Rejects when `late` comes first. No race: each of them would stay with the promise of a Kafka that never comes. */
  async function producer(late: AbortSignal): Promise<Producer> {
    if (connected) return connected
    const waiter = Promise.withResolvers<Producer>()
    const giveUp = () => {
      waiter.reject(new Error('not connected in time'))
    }
    if (late.aborted) giveUp()
    late.addEventListener('abort', giveUp)
    waiting.add(waiter)
    connecting ??= startConnecting()
    try {
      return await waiter.promise
    } finally {
      waiting.delete(waiter)
      late.removeEventListener('abort', giveUp)
    }
  }

  async function send(blocks: readonly Block[], timeoutMs: number, late: AbortSignal): Promise<void> {
    const count = await options.partitions()
    for (const { partition } of blocks) {
      // kafkajs would drop such a record and report success.
      if (!Number.isInteger(partition) || partition < 0 || partition >= count) {
        throw new RangeError(`The topic ${topic} has no partition ${partition}`)
      }
    }
    const usable = await producer(late)
    for (const request of split(compressBlocks(blocks))) await sendRequest(usable, request, timeoutMs, late)
  }

  /** Tries again until it is acknowledged or `late`: nobody waits for it then, and the caller repeats it. */
  async function sendRequest(usable: Producer, blocks: readonly Block[], timeoutMs: number, late: AbortSignal) {
    const messages = blocks.map(encodeRecord)
    while (!late.aborted) {
      try {
        const topicMessages = [{ topic, messages }]
        verify(blocks, await usable.sendBatch({ acks: -1, timeout: timeoutMs, compression, topicMessages }))
        return
      } catch (error) {
        if (refusedTypes.includes(kafkaErrorType(error) ?? '')) throw error
        logger.debug({ topic, reason: describeKafkaError(error) }, 'blocks are sent again')
      }
      await pause(resendMs, late)
    }
    throw new Error('not acknowledged in time')
  }

  async function publish(blocks: readonly Block[], timeoutMs: number): Promise<void> {
    const bytes = bytesOf(blocks)
    if (unacknowledgedBytes > 0 && unacknowledgedBytes + bytes > options.unacknowledgedBytesMax) {
      throw unavailable(`Kafka has not acknowledged ${unacknowledgedBytes} bytes given to it before`)
    }
    const late = new AbortController()
    unacknowledgedBytes += bytes
    const sent = send(blocks, timeoutMs, late.signal).finally(() => {
      unacknowledgedBytes -= bytes
    })
    try {
      await withDeadline(sent, timeoutMs, () => {
        late.abort()
        return new Error(`not acknowledged within ${timeoutMs} ms`)
      })
    } catch (error) {
      if (error instanceof RangeError) throw error
      throw unavailable(`Kafka did not take the blocks: ${describeKafkaError(error)}`, error)
    }
  }

  return {
    async publish(blocks, timeoutMs) {
      if (closed.signal.aborted) throw unavailable('The event log is closed')
      if (blocks.length === 0) return
      const published = publish(blocks, timeoutMs)
      underWay.add(published)
      try {
        await published
      } finally {
        underWay.delete(published)
      }
    },
    async close() {
      await Promise.allSettled(underWay)
      closed.abort()
      const last = await connecting?.catch(() => undefined)
      if (last !== undefined) await client?.close(() => last.disconnect(), disconnectTimeoutMs)
    },
  }
}

function bytesOf(blocks: readonly Block[]): number {
  return blocks.reduce((sum, { payload }) => sum + payload.length, 0)
}

/**
 * Kafka limits what one request brings to one partition (`max.message.bytes`, 1 MiB by default), not the single block:
 * what is too much for one request goes into several, one after the other so that the order stays.
 */
function split(blocks: readonly Block[]): Block[][] {
  const requests: Block[][] = []
  let bytesOf = new Map<number, number>()
  for (const block of blocks) {
    const blockBytes = block.payload.length + recordOverheadBytes
    const bytes = bytesOf.get(block.partition)
    if (requests.length === 0 || (bytes !== undefined && bytes + blockBytes > requestBytesMax)) {
      requests.push([])
      bytesOf = new Map()
    }
    requests.at(-1)?.push(block)
    bytesOf.set(block.partition, (bytesOf.get(block.partition) ?? 0) + blockBytes)
  }
  return requests
}

/**
 * Every partition must have been acknowledged. kafkajs drops records of a partition that it does not know; and it keeps
 * one answer per broker across its own retries, so when a partition's leader moved to a broker that had answered
 * already, it never sent that partition's records and reported success (seen when brokers were killed).
 */
function verify(blocks: readonly Block[], acknowledged: readonly RecordMetadata[]): void {
  const partitions = new Set(acknowledged.filter(({ errorCode }) => errorCode === 0).map(({ partition }) => partition))
  const missing = blocks.find(({ partition }) => !partitions.has(partition))
  if (missing !== undefined) throw new Error(`partition ${missing.partition} was not acknowledged`)
}
