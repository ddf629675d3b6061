import { isIP } from 'node:net'
import { Redis as Client, ReplyError, type RedisOptions } from 'ioredis'
import { unavailable } from '@sluice/contracts/errors'
import { withDeadline } from '@sluice/runtime/deadline'
import type { RedisLogger } from './ports.ts'
import { describeRedisError, redisLines } from './redis-lines.ts'
import type { RedisAddress } from './redis-url.ts'

/** Nobody waits longer for an answer. */
const answerTimeoutMs = 100
/** A connection that leaves a command unanswered for so long is given up: behind it may be a machine without power. */
const silenceMsMax = 1_000
const connectTimeoutMs = 2_000
const reconnectMs = { first: 50, longest: 1_000 }

/**
 * One connection to Redis, made anew for ever when it breaks. Whoever asks gets an answer, or a rejection within 100 ms;
 * at once when it is known that Redis is away or silent, and then nothing is sent.
 */
export interface RedisConnection {
  readonly client: Client
  /** False while there is no connection, and from a call without answer to the next answer. */
  isUp(): boolean
  /** What `send` is answered; rejects with SluiceError 503, whose text holds neither keys nor values. */
  ask<T>(send: (client: Client) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export function connectRedis(address: RedisAddress, logger: RedisLogger): RedisConnection {
  const lines = redisLines(`${address.host}:${address.port}`, logger)
  const client = new Client(clientOptions(address))
  let isSilent = false
  let isClosed = false
  let lastError = 'it has not answered yet'

  const goAway = (reason: string): void => {
    lastError = reason
    if (!isClosed) lines.away(reason)
  }

  const comeBack = (): void => {
    isSilent = false
    lines.back()
  }

  client.on('ready', comeBack)
  client.on('error', (error: unknown) => {
    goAway(describeRedisError(error))
  })
  client.on('close', () => {
    // After an error, that was the reason.
    if (!lines.isAway()) goAway('it closed the connection')
  })

  /**
   * Calls of one turn of the event loop. They go out in one write, at its end: writes cost more than all else. From then
   * on they have their time.
   */
  interface Turn {
    /** What rejects each call that has no answer yet. */
    unanswered: Set<() => void>
    timer: NodeJS.Timeout | undefined
  }
  let present: Turn | undefined

  const beginTurn = (): Turn => {
    const turn: Turn = { unanswered: new Set(), timer: undefined }
    const { stream } = client
    stream.cork()
    setImmediate(() => {
      present = undefined
      stream.uncork()
      // When it was this process that slept, the answer lies in the socket: it is read before the immediate.
      turn.timer = setTimeout(() => setImmediate(endTurn, turn), answerTimeoutMs)
      if (turn.unanswered.size === 0) clearTimeout(turn.timer)
    })
    return turn
  }

  const endTurn = ({ unanswered }: Turn): void => {
    if (unanswered.size === 0) return
    isSilent = true
    goAway(`no answer within ${answerTimeoutMs} ms`)
    for (const reject of unanswered) reject()
  }

  const isUp = (): boolean => client.status === 'ready' && !isSilent

  const ask = <T>(send: (client: Client) => Promise<T>): Promise<T> => {
    if (isClosed) return Promise.reject(unavailable('Redis: the connection was closed by this process'))
    if (!isUp()) return Promise.reject(unavailable(`Redis: ${lastError}`))
    const turn = (present ??= beginTurn())
    return new Promise((resolve, reject) => {
      const onSilence = (): void => {
        reject(unavailable(`Redis: ${lastError}`))
      }
      turn.unanswered.add(onSilence)
      const onAnswer = (): void => {
        turn.unanswered.delete(onSilence)
        if (turn.unanswered.size === 0) clearTimeout(turn.timer)
        // A late one says that Redis is back.
        if (isSilent && client.status === 'ready') comeBack()
      }
      send(client).then(
        (answer) => {
          onAnswer()
          resolve(answer)
        },
        (error: unknown) => {
          onAnswer()
          const reason = describeRedisError(error)
          if (error instanceof ReplyError) lines.refused(reason)
          reject(unavailable(`Redis: ${reason}`))
        },
      )
    })
  }

  return {
    client,
    isUp,
    ask,
    async close() {
      const wasUp = isUp()
      isClosed = true
      if (wasUp) {
        // Answered after all that was asked before; a silent one is not waited for.
        await withDeadline(client.quit(), answerTimeoutMs, () => new Error('no answer')).catch(() => undefined)
        await new Promise(setImmediate) // whoever got an answer hears it first
      }
      client.disconnect()
    },
  }
}

function clientOptions({ host, port, username, password, db, tls, prefix }: RedisAddress) {
  return {
    host,
    port,
    db,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: { ...(isIP(host) === 0 && { servername: host }), ...(tls.ca !== undefined && { ca: tls.ca }) } }),
    keyPrefix: prefix,
    connectionName: 'sluice',
    disableClientInfo: true,
    // All that is asked has an old answer type: the handshake of RESP3 would gain nothing, and proxies refuse it.
    protocol: 2,
    connectTimeout: connectTimeoutMs,
    socketTimeout: silenceMsMax,
    disconnectTimeout: answerTimeoutMs,
    maxLoadingRetryTime: reconnectMs.longest,
    retryStrategy: (times) => Math.min(reconnectMs.first * 2 ** Math.min(times - 1, 10), reconnectMs.longest),
    // After a failover the name leads to another server.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    // What has no answer is the caller's to settle: sent again, it would be counted twice.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  } satisfies RedisOptions
}
