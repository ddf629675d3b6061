// An HTTP service on a free port, and raw connections for requests that HTTP clients do not send.
import { connect, type Socket } from 'node:net'
import { type Access, denyAll } from '@sluice/access/access'
import { hashKey, keyHint } from '@sluice/access/api-key'
import { type KeyCache, keyCache } from '@sluice/access/key-cache'
import type { KeyRecord } from '@sluice/access/keys'
import { type ListenConfig, serve, type Service } from '@sluice/http/service'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { supervise } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { type CapturedLogger, capturedLogger } from './captured-logger.ts'
import { checkAnswer } from './check-answer.ts'
import { exactClock } from './clock.ts'

export interface TestService extends CapturedLogger {
  /** `http://127.0.0.1:<port>`, or `https:`. */
  url: string
  port: number
  /** The URL of the metrics server. */
  metricsUrl: string
  metrics: Metrics
  stop: () => Promise<void>
}

/**
 * Runs a service on free ports of 127.0.0.1 with a logger that writes into memory. If `access` has only keys, there are
 * neither rate limits nor sessions.
 */
export async function startTestService(
  service: Partial<Service>,
  access: Access | Access['keys'],
  captured: CapturedLogger = capturedLogger(),
  {
    clock = exactClock,
    certificateCheckMs = 10_000,
    ...variables
  }: Omit<ListenConfig, 'SLUICE_HOST' | 'SLUICE_PORT' | 'SLUICE_METRICS_PORT'> & {
    clock?: SynchronizedClock
    certificateCheckMs?: number
  } = {},
): Promise<TestService> {
  const { logger } = captured
  const metrics = createMetrics()
  const { server, components } = serve(
    { routes: [], pages: [], components: [], checks: [], ...service },
    'keys' in access ? access : withoutLimits(access),
    {
      config: { SLUICE_HOST: '127.0.0.1', SLUICE_PORT: 0, SLUICE_METRICS_PORT: undefined, ...variables },
      logger,
      metrics,
      clock,
      certificateCheckMs,
    },
  )
  const supervisor = supervise(components, logger)
  await supervisor.start()
  const metricsServer = components.find(({ name }) => name === 'metrics') as typeof server
  return {
    ...captured,
    url: `${variables.SLUICE_TLS_CERT === undefined ? 'http' : 'https'}://127.0.0.1:${server.port()}`,
    port: server.port(),
    metricsUrl: `http://127.0.0.1:${metricsServer.port()}`,
    metrics,
    stop: () => supervisor.stop(),
  }
}

function withoutLimits(keys: Access['keys']): Access {
  const endless = { granted: true, remaining: 1_000, resetAt: Date.now() + 60_000 }
  return {
    ...denyAll,
    keys,
    limiter: {
      consume: () => Promise.resolve(endless),
      refund: () => Promise.resolve(),
      peek: () => endless,
    },
  }
}

/** The real key cache over a fixed set of keys in memory. */
export function keysInMemory(keys: Readonly<Record<string, Pick<KeyRecord, 'scopes'> & Partial<KeyRecord>>>): KeyCache {
  const byHash = new Map(
    Object.entries(keys).map(([key, record], n): [string, KeyRecord] => [
      hashKey(key),
      {
        keyId: `key_${n}`,
        name: `key ${n}`,
        environment: 'prod',
        siteIds: null,
        rateLimits: null,
        allowedOrigins: null,
        hash: hashKey(key),
        hint: keyHint(key),
        createdAt: Date.now(),
        lastUsedAt: null,
        expiresAt: null,
        revokedAt: null,
        rotatedTo: null,
        ...record,
      },
    ]),
  )
  const source = {
    findByHash: (hash: string) => Promise.resolve(byHash.get(hash)),
    findByHashes: (hashes: readonly string[]) => Promise.resolve(hashes.flatMap((hash) => byHash.get(hash) ?? [])),
    changedSince: () => Promise.resolve({ changed: [], cursor: '0' }),
    markUsed: () => Promise.resolve([]),
  }
  return keyCache(source, { logger: capturedLogger().logger, clock: exactClock })
}

export interface Envelope {
  success: boolean
  timestamp: number
  error?: string
  data?: unknown
}

/** Fetches a JSON response and returns it with its envelope. Throws if it differs from the OpenAPI document. */
export async function request(
  url: string,
  options: RequestInit = {},
): Promise<{ status: number; headers: Headers; body: Envelope }> {
  const response = await fetch(url, options)
  const answer = { status: response.status, headers: response.headers, body: (await response.json()) as Envelope }
  checkAnswer(options.method ?? 'GET', url, answer)
  return answer
}

/** A TCP connection for bytes that HTTP clients do not send. */
export interface RawConnection {
  socket: Socket
  send: (bytes: string | Buffer) => void
  /** Everything that was received, once the server has closed the connection. */
  closed: Promise<string>
  /** Resolves with the received text once it matches; rejects if the connection closes before. */
  received: (pattern: RegExp) => Promise<string>
}

export async function connectRaw(port: number): Promise<RawConnection> {
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
  let text = ''
  const watchers = new Set<() => void>()
  const closed = new Promise<string>((resolve) => {
    const end = (): void => {
      socket.destroy()
      resolve(text)
      for (const watch of watchers) watch()
    }
    socket.on('end', end)
    socket.on('close', end)
    socket.on('error', end)
  })
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
    for (const watch of watchers) watch()
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  return {
    socket,
    send: (bytes) => socket.write(bytes),
    closed,
    received: (pattern) =>
      new Promise((resolve, reject) => {
        const watch = (): void => {
          if (pattern.test(text)) resolve(text)
          else if (socket.destroyed) reject(new Error(`the connection closed before ${String(pattern)}: ${text}`))
          else return
          watchers.delete(watch)
        }
        watchers.add(watch)
        watch()
      }),
  }
}
