import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import kafkajs, { type Admin, type ISocketFactory, Kafka, type LogEntry, logLevel, type RetryOptions } from 'kafkajs'
import { withDeadline } from '@sluice/runtime/deadline'
import { errorCode } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { KafkaAddress } from './url.ts'
import { emitWholeFrames } from './whole-frames.ts'

export interface KafkaClientOptions {
  address: KafkaAddress
  logger: Pick<Logger, 'debug'>
  /** Shown in the brokers' logs and quotas. */
  clientId: string
  /** Called with each log line of kafkajs. */
  forward: (entry: LogEntry) => void
  /** If a request gets no response for this time, it fails and its connection is destroyed. */
  requestTimeoutMs: number
  retry: RetryOptions
}

/**
 * One kafkajs client and its connections. Each producer, consumer and admin has its own client, for two reasons:
 * consumers with the same client and group would share kafkajs's cache of committed offsets, and connections are
 * destroyed by client.
 */
export interface KafkaClient {
  readonly kafka: Kafka
  /**
   * Destroys the connections to a broker (`host:port`) that did not respond to a request. kafkajs would continue to use
   * them until TCP times out, which takes a quarter of an hour if the machine has lost its power.
   */
  destroyConnections(broker: string): void
  /**
   * Runs `disconnect` for at most `ms`, then destroys the remaining connections. kafkajs waits for pending requests, to
   * which a frozen broker never responds, and may leave a connection open if it connected twice. Never rejects.
   */
  close(disconnect: () => Promise<void>, ms: number): Promise<void>
}

const decompressZstd = promisify(zstdDecompress)
// Sluice compresses the payloads itself. However, brokers may be configured to compress records again, and other
// programs may compress theirs.
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({ decompress: decompressZstd })

const connectTimeoutMs = 3000
const keepAliveDelayMs = 60_000

/** A client without connections. kafkajs connects when a producer, consumer or admin of the client does. */
export function createKafkaClient(options: KafkaClientOptions): KafkaClient {
  const { address, logger, requestTimeoutMs } = options
  const sockets = new Map<Socket, string>()
  let closed = false

  const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    // kafkajs would keep connecting after `close`.
    if (closed) throw new Error('The event log closed this client')
    const target = {
      host,
      port,
      ...(isIP(host) === 0 && { servername: host }),
      ...(ssl as ConnectionOptions | undefined),
    }
    const socket = address.tls === undefined ? connectTcp({ host, port }, onConnect) : connectTls(target, onConnect)
    emitWholeFrames(socket)
    socket.setKeepAlive(true, keepAliveDelayMs)
    socket.setNoDelay(true)
    // Node adds a listener for each write of kafkajs before the connection is open.
    socket.setMaxListeners(0)
    sockets.set(socket, `${host}:${port}`)
    socket.once('close', () => sockets.delete(socket))
    return socket
  }

  const kafka = new Kafka({
    clientId: options.clientId,
    brokers: address.brokers,
    ...(address.tls && { ssl: address.tls.ca === undefined ? true : { ca: address.tls.ca } }),
    ...(address.sasl && { sasl: saslOptions(address.sasl) }),
    connectionTimeout: connectTimeoutMs,
    authenticationTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    retry: options.retry,
    socketFactory,
    logLevel: logLevel.INFO,
    logCreator: () => (entry) => {
      if (!closed) options.forward(entry)
    },
  })

  return {
    kafka,
    destroyConnections(broker) {
      for (const [socket, peer] of sockets) {
        if (peer === broker) socket.destroy(new Error('it did not answer in time'))
      }
    },
    async close(disconnect, ms) {
      try {
        await withDeadline(disconnect(), ms, () => new Error(`disconnecting from Kafka took longer than ${ms} ms`))
      } catch (error) {
        logger.debug({ err: error }, 'disconnecting from Kafka failed, destroying its connections')
      }
      closed = true
      for (const socket of sockets.keys()) socket.destroy(new Error('the event log closed it'))
    },
  }
}

function saslOptions({ mechanism, username, password }: NonNullable<KafkaAddress['sasl']>) {
  // One literal for each mechanism, because kafkajs's type is a union by mechanism.
  switch (mechanism) {
    case 'plain':
      return { mechanism, username, password }
    case 'scram-sha-256':
      return { mechanism, username, password }
    case 'scram-sha-512':
      return { mechanism, username, password }
  }
}

/** Time limit of a call of `KafkaAdmin.use` in ms, with connecting, for requests that brokers answer from memory. */
export const adminCallTimeoutMs = 5000

/** An admin connection that is opened when it is needed and replaced after a failure. */
export interface KafkaAdmin {
  /** Rejects with the work's error, or after `ms`. */
  use<T>(work: (admin: Admin) => Promise<T>, ms: number): Promise<T>
  close(): Promise<void>
}

/** An admin that connects at the first `use`. `create` makes a client for each connection. */
export function createKafkaAdmin(create: () => KafkaClient): KafkaAdmin {
  interface Connected {
    client: KafkaClient
    admin: Admin
    connected: Promise<void>
  }
  let current: Connected | undefined
  let closed = false

  const connect = (): Connected => {
    const client = create()
    const admin = client.kafka.admin()
    admin.on(admin.events.REQUEST_TIMEOUT, ({ payload }) => client.destroyConnections(payload.broker))
    return { client, admin, connected: admin.connect() }
  }

  const closeConnection = async (connection: Connected | undefined) => {
    if (connection === undefined) return
    if (current === connection) current = undefined
    await connection.client.close(() => connection.admin.disconnect(), 1000)
  }

  return {
    async use(work, ms) {
      if (closed) throw new Error('The event log is closed')
      const used = (current ??= connect())
      try {
        const done = used.connected.then(() => work(used.admin))
        return await withDeadline(done, ms, () => new Error(`Kafka did not answer within ${ms} ms`))
      } catch (error) {
        void closeConnection(used)
        throw error
      }
    },
    async close() {
      closed = true
      await closeConnection(current)
    },
  }
}

/**
 * Kafka's name of an error, for example `UNKNOWN_MEMBER_ID`, also if the error is wrapped; the first one, if a request
 * failed for several topics. Otherwise the error's JavaScript name.
 */
export function kafkaErrorType(error: unknown): string | undefined {
  const { type, name, cause } = fieldsOf(error)
  if (typeof type === 'string') return type
  const [refused] = refusedTopics(error)
  if (refused !== undefined) return refused.type
  const inner = cause === undefined ? undefined : kafkaErrorType(cause)
  return inner ?? (typeof name === 'string' ? name : undefined)
}

/**
 * True when a broker answered with an error, which may concern only one partition of the request. A partition without a
 * leader does not count, because kafkajs then has no metadata of any partition.
 */
export function isRefusal(error: unknown): boolean {
  const { type, cause } = fieldsOf(error)
  if (typeof type === 'string') return type !== 'LEADER_NOT_AVAILABLE'
  return cause !== undefined && isRefusal(cause)
}

/**
 * Text for `internal` and for log lines: the error's type and kafkajs's message, with each topic for which the request
 * failed, and why.
 */
export function describeKafkaError(error: unknown): string {
  const { message, cause } = fieldsOf(error)
  // kafkajs quotes the message of Node's error, which is empty when a broker's name has several addresses.
  const code = errorCode(error) ?? errorCode(cause)
  const text = typeof message === 'string' ? message.replace(/: $/, code === undefined ? '' : `: ${code}`) : 'unknown'
  const refused = refusedTopics(error)
  if (refused.length > 0) return `${text}: ${refused.map(({ topic, type }) => `${topic} ${type}`).join(', ')}`
  const type = kafkaErrorType(error)
  return type === undefined || type === 'Error' ? text : `${type}: ${text}`
}

/** The topics for which a request of several topics failed: kafkajs puts their errors into one KafkaJSAggregateError. */
function refusedTopics(error: unknown): { topic: string; type: string }[] {
  const { errors } = fieldsOf(error)
  if (!Array.isArray(errors)) return []
  return errors.flatMap((each) => {
    const { topic, type } = fieldsOf(each)
    return typeof topic === 'string' && typeof type === 'string' ? [{ topic, type }] : []
  })
}

function fieldsOf(error: unknown): Record<string, unknown> {
  return typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {}
}
