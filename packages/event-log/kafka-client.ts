import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { Kafka, logLevel, type Admin, type ISocketFactory, type LogEntry, type RetryOptions } from 'kafkajs'
import { withDeadline } from '@sluice/runtime/deadline'
import type { KafkaAddress } from './kafka-url.ts'
import type { EventLogLogger } from './logger.ts'

export interface KafkaClientOptions {
  address: KafkaAddress
  logger: EventLogLogger
  /** Shown in the brokers' logs and quotas. */
  clientId: string
  /** Where kafkajs's own lines go. */
  forward: (entry: LogEntry) => void
  /** After so long without an answer a request fails, and its connection with it. */
  requestTimeoutMs: number
  retry: RetryOptions
}

/**
 * One kafkajs client and its connections. Each producer, consumer and admin gets a client of its own: consumers of one
 * client and group share what kafkajs remembers of committed offsets, and only so can each be cut off alone.
 */
export interface KafkaClient {
  readonly kafka: Kafka
  /**
   * Destroys the connections to a broker (`host:port`) that left a request unanswered. kafkajs would keep them, and go
   * on asking that broker, until TCP gives up: a quarter of an hour for a machine that lost its power.
   */
  cutOff(broker: string): void
  /**
   * Runs `disconnect`, at most `ms` long, then destroys what connections are left: kafkajs waits for requests under
   * way, which a frozen broker never answers, and forgets connections that it made twice. Never rejects.
   */
  close(disconnect: () => Promise<void>, ms: number): Promise<void>
}

const connectTimeoutMs = 3000
const keepAliveDelayMs = 60_000

export function createKafkaClient(options: KafkaClientOptions): KafkaClient {
  const { address, logger, requestTimeoutMs } = options
  const sockets = new Map<Socket, string>()
  let closed = false

  const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    // kafkajs would go on trying behind our back.
    if (closed) throw new Error('The event log closed this client')
    const target = {
      host,
      port,
      ...(isIP(host) === 0 && { servername: host }),
      ...(ssl as ConnectionOptions | undefined),
    }
    const socket = address.tls === undefined ? connectTcp({ host, port }, onConnect) : connectTls(target, onConnect)
    socket.setKeepAlive(true, keepAliveDelayMs)
    socket.setNoDelay(true)
    // Each write that waits for the connection adds a listener.
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
    cutOff(broker) {
      for (const [socket, peer] of sockets) {
        if (peer === broker) socket.destroy(new Error('it did not answer in time'))
      }
    },
    async close(disconnect, ms) {
      try {
        await withDeadline(disconnect(), ms, () => new Error(`Kafka did not let go within ${ms} ms`))
      } catch (error) {
        logger.debug({ err: error }, 'connections to Kafka are cut')
      }
      closed = true
      for (const socket of sockets.keys()) socket.destroy(new Error('the event log closed it'))
    },
  }
}

function saslOptions({ mechanism, username, password }: NonNullable<KafkaAddress['sasl']>) {
  // One literal each: kafkajs's type is a union by mechanism.
  switch (mechanism) {
    case 'plain':
      return { mechanism, username, password }
    case 'scram-sha-256':
      return { mechanism, username, password }
    case 'scram-sha-512':
      return { mechanism, username, password }
  }
}

/** An admin connection that is made when it is needed and made anew after a failure. */
export interface KafkaAdmin {
  /** Rejects with the work's error, or after `ms`. */
  use<T>(work: (admin: Admin) => Promise<T>, ms: number): Promise<T>
  close(): Promise<void>
}

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
    admin.on(admin.events.REQUEST_TIMEOUT, ({ payload }) => {
      client.cutOff(payload.broker)
    })
    return { client, admin, connected: admin.connect() }
  }

  const drop = async (which: Connected | undefined) => {
    if (which === undefined) return
    if (current === which) current = undefined
    await which.client.close(() => which.admin.disconnect(), 1000)
  }

  return {
    async use(work, ms) {
      if (closed) throw new Error('The event log is closed')
      const mine = (current ??= connect())
      try {
        const done = mine.connected.then(() => work(mine.admin))
        return await withDeadline(done, ms, () => new Error(`Kafka did not answer within ${ms} ms`))
      } catch (error) {
        void drop(mine)
        throw error
      }
    },
    async close() {
      closed = true
      await drop(current)
    },
  }
}

/** Kafka's name of an error, e.g. `UNKNOWN_MEMBER_ID`, however deep kafkajs wrapped it; else its JavaScript name. */
export function kafkaErrorType(error: unknown): string | undefined {
  const { type, name, cause } = fieldsOf(error)
  if (typeof type === 'string') return type
  const inner = cause === undefined ? undefined : kafkaErrorType(cause)
  return inner ?? (typeof name === 'string' ? name : undefined)
}

/** For `internal` and the log: the type says more than kafkajs's sentence. */
export function describeKafkaError(error: unknown): string {
  const type = kafkaErrorType(error)
  const { message } = fieldsOf(error)
  const text = typeof message === 'string' ? message : 'unknown'
  return type === undefined || type === 'Error' ? text : `${type}: ${text}`
}

function fieldsOf(error: unknown): Record<string, unknown> {
  return typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {}
}
