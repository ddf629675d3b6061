import { isIP } from 'node:net'
import { Redis as Client, type RedisOptions, ReplyError } from 'ioredis'
import { withDeadline } from '@sluice/runtime/deadline'
import { type AppError, unavailable } from '@sluice/runtime/errors'
import { createConnectionLog, describeRedisError } from './connection-log.ts'
import type { RedisLogger } from './port.ts'
import type { RedisAddress, RedisNode } from './redis-url.ts'

/** The longest time that a caller waits for a reply. */
const defaultReplyTimeoutMs = 100
/** If a connection gets no reply for this long, it is closed: the machine at its other end may be switched off. */
const silenceMsMax = 1_000
const connectTimeoutMs = 2_000
const reconnectMs = { first: 50, longest: 1_000 }

/**
 * One connection to Redis. When it breaks, it reconnects without end. A call gets its reply or a rejection within 100
 * ms. While Redis is known to be unavailable or unresponsive, calls are rejected at once and nothing is sent.
 */
export interface RedisConnection {
  readonly client: Client
  /** False without a connection, and after a call without a reply until the next reply. */
  isUp(): boolean
  /**
   * Resolves with the reply to `send`; rejects with AppError `unavailable`, whose text holds neither keys nor values.
   */
  run<T>(send: (client: Client) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** What Redis answers when its user may not do what a script does: of version 7.0 and older, and of newer ones. */
const scriptForbidden = /The user executing the script can't |ACL failure in script/

/**
 * `reason` may begin with an error of Redis (`WRONGPASS …`; `ERR` alone says nothing), have one of a script inside, as
 * before Redis 7 (`ERR Error running script (…): -OOM …`), or name one of the system (`connect ECONNREFUSED …`).
 */
function failure(reason: string): AppError {
  const named = /(?<=^|: -)(?!ERR )[A-Z]{3,}(?= )|(?<=^(?:connect|getaddrinfo|read|write) )E[A-Z_]+/.exec(reason)?.[0]
  const code = named ?? (scriptForbidden.test(reason) ? 'NOPERM' : undefined)
  return unavailable(`Redis: ${reason}`, code === undefined ? undefined : { code })
}

/** Starts to connect, and returns without waiting for the connection. */
export function connectRedis(
  address: RedisAddress,
  logger: RedisLogger,
  replyTimeoutMs = defaultReplyTimeoutMs,
): RedisConnection {
  const log = createConnectionLog(describePlace(address), logger)
  const client = new Client(clientOptions(address, replyTimeoutMs))
  let isUnresponsive = false
  let isClosed = false
  let lastError = 'it has not answered yet'

  const markDown = (reason: string): void => {
    lastError = reason
    if (!isClosed) log.logDown(reason)
  }

  const markUp = (): void => {
    isUnresponsive = false
    log.logUp()
  }

  client.on('ready', markUp)
  client.on('error', (error: unknown) => markDown(describeRedisError(error)))
  client.on('close', () => {
    // If an error came first, that error was logged as the reason.
    if (!log.isDown()) markDown('it closed the connection')
  })

  /**
   * The calls of one turn of the event loop. They are sent in one write at the end of the turn, because a write costs
   * more than everything else in a call. The time limit of the calls starts then.
   */
  interface Turn {
    /** Rejects each call that has no reply yet. */
    pendingRejections: Set<() => void>
    timer: NodeJS.Timeout | undefined
  }
  let currentTurn: Turn | undefined

  const startTurn = (): Turn => {
    const turn: Turn = { pendingRejections: new Set(), timer: undefined }
    const { stream } = client
    stream.cork()
    setImmediate(() => {
      currentTurn = undefined
      stream.uncork()
      // If this process was suspended, the reply may already be in the socket. It is read before the immediate runs.
      turn.timer = setTimeout(() => setImmediate(rejectPending, turn), replyTimeoutMs)
      if (turn.pendingRejections.size === 0) clearTimeout(turn.timer)
    })
    return turn
  }

  const rejectPending = ({ pendingRejections }: Turn): void => {
    if (pendingRejections.size === 0) return
    isUnresponsive = true
    markDown(`no answer within ${replyTimeoutMs} ms`)
    for (const reject of pendingRejections) reject()
  }

  const isUp = (): boolean => client.status === 'ready' && !isUnresponsive

  const run = <T>(send: (client: Client) => Promise<T>): Promise<T> => {
    if (isClosed) return Promise.reject(unavailable('Redis: the connection was closed by this process'))
    if (!isUp()) return Promise.reject(failure(lastError))
    const turn = (currentTurn ??= startTurn())
    return new Promise((resolve, reject) => {
      const rejectCall = (): void => reject(failure(lastError))
      turn.pendingRejections.add(rejectCall)
      const onReply = (): void => {
        turn.pendingRejections.delete(rejectCall)
        if (turn.pendingRejections.size === 0) clearTimeout(turn.timer)
        // A late reply shows that Redis is available again.
        if (isUnresponsive && client.status === 'ready') markUp()
      }
      send(client).then(
        (reply) => {
          onReply()
          resolve(reply)
        },
        (error: unknown) => {
          onReply()
          const reason = describeRedisError(error)
          if (error instanceof ReplyError) log.logErrorReply(reason)
          reject(failure(reason))
        },
      )
    })
  }

  return {
    client,
    isUp,
    run,
    async close() {
      const wasUp = isUp()
      isClosed = true
      if (wasUp) {
        // Redis replies to QUIT after all earlier calls. The wait is limited, in case Redis does not respond.
        await withDeadline(client.quit(), replyTimeoutMs, () => new Error('no answer')).catch(() => undefined)
        await new Promise(setImmediate) // The callers of these calls continue first.
      }
      client.disconnect()
    },
  }
}

/** The name of a Redis in the log. */
function describePlace(address: RedisAddress): string {
  const text = ({ host, port }: RedisNode): string => `${host}:${port}`
  return 'sentinels' in address ? `${address.name} of ${address.sentinels.map(text).join(',')}` : text(address)
}

/** The options for ioredis's target. With Sentinels, ioredis asks them again at each connection. */
function placeOptions(address: RedisAddress) {
  if ('sentinels' in address) {
    const { sentinels, name } = address
    // A frozen Sentinel accepts connections and answers nothing.
    return { sentinels, name, sentinelCommandTimeout: connectTimeoutMs }
  }
  const { host, port, tls } = address
  return {
    host,
    port,
    ...(tls && { tls: { ...(isIP(host) === 0 && { servername: host }), ...(tls.ca !== undefined && { ca: tls.ca }) } }),
  }
}

function clientOptions(address: RedisAddress, replyTimeoutMs: number) {
  const { username, password, db, prefix } = address
  return {
    ...placeOptions(address),
    db,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    keyPrefix: prefix,
    connectionName: 'sluice',
    disableClientInfo: true,
    // All replies have types of RESP2. The handshake of RESP3 would bring nothing, and proxies refuse it.
    protocol: 2,
    connectTimeout: connectTimeoutMs,
    // Callers stop waiting before the connection is closed.
    socketTimeout: Math.max(silenceMsMax, 2 * replyTimeoutMs),
    disconnectTimeout: defaultReplyTimeoutMs,
    maxLoadingRetryTime: reconnectMs.longest,
    retryStrategy: (times) => Math.min(reconnectMs.first * 2 ** Math.min(times - 1, 10), reconnectMs.longest),
    // After a failover, the host name resolves to another server, or the Sentinels name another one. Before Redis 7, the
    // text of a script's error begins with `ERR Error running script` and has this error inside.
    reconnectOnError: (error) => error.message.includes('READONLY'),
    // The caller decides what to do after a call without a reply. A call that is sent again would be counted twice.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  } satisfies RedisOptions
}
