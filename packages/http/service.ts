import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Access } from '@sluice/access/access'
import { type Readiness, readiness, type ReadyCheck } from '@sluice/runtime/health'
import type { Logger } from '@sluice/runtime/logger'
import type { Metrics } from '@sluice/runtime/metrics'
import { sleep } from '@sluice/runtime/sleep'
import type { Component } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { createAdmission, memoryIsFull } from './admission.ts'
import { createListener, type StaticPage } from './app.ts'
import { clientReader } from './client-address.ts'
import { createDispatch } from './dispatch.ts'
import { requestIdOf } from './observe-requests.ts'
import { refusedConnections } from './refused-connections.ts'
import type { Route } from './route.ts'
import { type HttpServer, httpServer } from './server.ts'
import { serverLimits } from './server-limits.ts'
import { addServiceMetrics } from './service-metrics.ts'
import { type StopConfig, stopTimes } from './stop-times.ts'
import { openTlsCertificate, type TlsConfig } from './tls.ts'
import { createWorkQueue } from './work-queue.ts'

/** The parts of a service, which its build.ts makes from configuration and engines. */
export interface Service {
  routes: readonly Route[]
  pages: readonly StaticPage[]
  /** Components in the order of their start; the servers start after them. */
  components: readonly Component[]
  checks: readonly ReadyCheck[]
  /** Called when the process begins to stop, while requests are still served. */
  onStopping?: () => void
  /** Standing warnings for /readyz, e.g. a log with too few replicas. */
  warnings?: () => readonly string[]
}

/** All probes within this time share one result: probes are public, and a check sends a request to each engine. */
const readinessAgeMsMax = 1_000

/** Where a service listens, and whom it answers: the variables of docs/configuration.md, as they are read. */
export interface ListenConfig extends StopConfig, TlsConfig {
  SLUICE_HOST: string
  SLUICE_PORT: number
  SLUICE_METRICS_PORT: number | undefined
  SLUICE_TRUSTED_PROXIES?: readonly string[]
  SLUICE_CORS_ORIGINS?: readonly string[]
  SLUICE_KEEP_ALIVE_SECONDS?: number
}

/**
 * The HTTP side of a service: its routes with `/healthz` and `/readyz` on one port, with TLS if the configuration names
 * a certificate, `/metrics` on another port without TLS. `/healthz` is there, too, for probes that get no connection while
 * clients hold all of the first port. Returns the server and all components in the order of their start. Throws
 * ConfigError for a certificate that can't be used.
 */
export function serve(
  service: Service,
  access: Access,
  {
    config,
    logger,
    metrics,
    clock,
    failures = () => [],
    certificateCheckMs,
  }: {
    config: ListenConfig
    logger: Logger
    metrics: Metrics
    clock: Pick<SynchronizedClock, 'now' | 'warnings'>
    /** Names of components that failed and wait for a restart; `/readyz` lists them. */
    failures?: () => readonly string[]
    /** How often the files of the certificate are read. */
    certificateCheckMs?: number
  },
): { server: HttpServer; components: Component[] } {
  const { drainMs, requestsMs } = stopTimes(config)
  const certificate = openTlsCertificate(config, logger, certificateCheckMs)
  const admission = createAdmission(metrics)
  const logFailures = failureLog(logger)
  const checkReadiness = shareFor(
    () => logFailures((onFailure) => readiness(service.checks, { onFailure })),
    readinessAgeMsMax,
  )
  let isStopping = false

  async function readReadiness(): Promise<Readiness> {
    const result = await checkReadiness()
    const missing = { ...result.missing }
    const degraded = { ...result.degraded }
    if (isStopping) missing.service = 'stopping'
    if (admission.isFull()) missing.memory = memoryIsFull
    for (const name of failures()) degraded[name] = 'failed, is run again'
    return { missing, degraded }
  }

  async function ready(response: ServerResponse): Promise<void> {
    const { missing, degraded } = await readReadiness()
    const isReady = Object.keys(missing).length === 0
    const warnings = [...clock.warnings(), ...(certificate?.warnings() ?? []), ...(service.warnings?.() ?? [])]
    sendJson(response, isReady ? 200 : 503, {
      success: isReady,
      ...(isReady ? {} : { error: `Not ready: ${Object.keys(missing).join(', ')}` }),
      timestamp: clock.now(),
      data: { status: isReady ? 'ready' : 'not ready', missing, degraded, warnings },
    })
  }

  addServiceMetrics(metrics, { engines: service.checks.map(({ name }) => name), read: readReadiness, certificate })
  const answerAlive = (response: ServerResponse): void =>
    sendJson(response, 200, { success: true, timestamp: clock.now(), data: { status: 'alive' } })
  const probes: StaticPage[] = [
    { path: '/healthz', handle: (_request, response) => answerAlive(response) },
    { path: '/readyz', handle: (_request, response) => ready(response) },
  ]
  const corsOrigins = new Set(config.SLUICE_CORS_ORIGINS)
  const clients = clientReader(config.SLUICE_TRUSTED_PROXIES ?? [])
  const workQueue = createWorkQueue(metrics)
  const { routes } = service
  const dispatch = createDispatch({
    routes,
    access,
    clients,
    corsOrigins,
    admission,
    workQueue,
    logger,
    metrics,
    clock,
  })
  const listener = createListener(routes, [...probes, ...service.pages], { dispatch, clients, corsOrigins })
  const { SLUICE_KEEP_ALIVE_SECONDS: keepAliveSeconds } = config
  const server = httpServer('http', listener, {
    host: config.SLUICE_HOST,
    port: config.SLUICE_PORT,
    portVariable: 'SLUICE_PORT',
    requestsMs,
    onRefused: refusedConnections(metrics, logger),
    ...(keepAliveSeconds !== undefined && {
      limits: { ...serverLimits, keepAliveTimeoutMs: keepAliveSeconds * 1000 },
    }),
    ...(certificate && { tls: certificate.pair() }),
  })
  const metricsServer = httpServer('metrics', metricsListener(metrics, logger, answerAlive), {
    host: config.SLUICE_HOST,
    port: config.SLUICE_METRICS_PORT ?? (config.SLUICE_PORT === 0 ? 0 : config.SLUICE_PORT + 1000),
    portVariable: 'SLUICE_METRICS_PORT',
    requestsMs,
  })
  const announceStop: Component = {
    name: 'readiness',
    // Stopped first, so that `/readyz` reports the stop to load balancers while the server still accepts requests.
    stop: async () => {
      isStopping = true
      service.onStopping?.()
      server.drain()
      await sleep(drainMs)
    },
  }
  const certificateWatch = certificate?.watch((pair) => server.replaceCertificate(pair))
  return {
    server,
    components: [
      ...service.components,
      ...(certificateWatch ? [certificateWatch] : []),
      metricsServer,
      server,
      announceStop,
    ],
  }
}

/** Logs a check when it begins to fail and when it passes again. The rounds in between log nothing. */
function failureLog(logger: Logger) {
  const failing = new Set<string>()
  return async (
    check: (onFailure: (name: string, reason: string) => void) => Promise<Readiness>,
  ): Promise<Readiness> => {
    const result = await check((engine, reason) => {
      if (failing.has(engine)) return
      failing.add(engine)
      logger.warn({ engine, reason }, 'engine check failed')
    })
    for (const engine of failing) {
      if (engine in result.missing || engine in result.degraded) continue
      failing.delete(engine)
      // As severe as the failure, so that a log that shows the one shows the other.
      logger.warn({ engine }, 'engine check recovered')
    }
    return result
  }
}

/** Shares the result of one call among all calls until it ends and for `ms` afterwards. `read` never rejects. */
function shareFor(read: () => Promise<Readiness>, ms: number): () => Promise<Readiness> {
  let result: Promise<Readiness> | undefined
  let endedAt: number | undefined
  return () => {
    if (result && (endedAt === undefined || performance.now() - endedAt < ms)) return result
    endedAt = undefined
    result = read().finally(() => {
      endedAt = performance.now()
    })
    return result
  }
}

function metricsListener(metrics: Metrics, logger: Logger, answerAlive: (response: ServerResponse) => void) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    response.setHeader('X-Request-Id', requestIdOf(request))
    const path = request.url?.split('?', 1)[0]
    if (path !== '/metrics') {
      if (path === '/healthz') answerAlive(response)
      else response.writeHead(404).end()
      return
    }
    metrics
      .metrics()
      .then((text) => response.writeHead(200, { 'Content-Type': metrics.contentType }).end(text))
      .catch((error: unknown) => {
        logger.error({ err: error }, 'metrics collection failed')
        response.writeHead(500).end()
      })
  }
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store' })
  response.end(JSON.stringify(body))
}
