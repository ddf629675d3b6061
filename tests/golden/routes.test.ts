import { afterAll, test } from '@jest/globals'
import { denyAll } from '@sluice/access/access'
import { openApiDocument } from '@sluice/api/openapi/document'
import { mediaTypesOf } from '@sluice/api/operation'
import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import type { EventLog } from '@sluice/event-log/log'
import { openEventReader } from '@sluice/event-store/event-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { buildGateway } from '@sluice/gateway/build'
import type { Route } from '@sluice/http/route'
import type { Context } from '@sluice/http/run-service'
import { serve, type Service } from '@sluice/http/service'
import { openPostgres } from '@sluice/postgres/open'
import { buildQuery } from '@sluice/query/build'
import { openRedis } from '@sluice/redis/open'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { buildWriter } from '@sluice/writer/build'
import { capturedLogger } from '../support/captured-logger.ts'
import { exactClock } from '../support/clock.ts'
import { testSecrets } from '../support/webhooks.ts'
import { expectGolden, joinBlocks, lineJson } from './golden.ts'

const config = {
  SLUICE_ADMIN_KEY: undefined,
  SLUICE_AUTO_REGISTER_SITES: true,
  SLUICE_COLLECT_URL: undefined,
}

interface BuiltService {
  service: Service
  metrics: Metrics
}

const { logger } = capturedLogger()
const postgres = openPostgres('postgres://nobody@127.0.0.1:1/none')
const clickHouseUrl = 'http://127.0.0.1:1/none'
const redis = openRedis('memory:', { logger })

afterAll(async () => {
  await redis.close()
  await postgres.close()
})

/** The services on engines without a connection: nothing is started. */
function buildAll(): Readonly<Record<'gateway' | 'query' | 'writer', BuiltService>> {
  const log = {} as EventLog
  const access = { ...denyAll, ...redis }
  const build = (make: (context: Context) => Service): BuiltService => {
    const metrics = createMetrics()
    const service = make({ logger, metrics, clock: exactClock })
    const listen = { SLUICE_HOST: '127.0.0.1', SLUICE_PORT: 0, SLUICE_METRICS_PORT: undefined }
    serve(service, access, { config: listen, logger, metrics, clock: exactClock })
    return { service, metrics }
  }
  return {
    gateway: build((context) =>
      buildGateway(
        config,
        { log, backfill: log, postgres, redis, describeDurability: () => Promise.resolve([]) },
        context,
      ),
    ),
    query: build((context) =>
      buildQuery(
        config,
        {
          eventReader: openEventReader(clickHouseUrl, context),
          postgres,
          redis,
          blobs: {} as BlobStore,
          keyCache: denyAll.keys,
          secrets: testSecrets,
          targets: { allowedNetworks: [] },
        },
        context,
      ),
    ),
    writer: build((context) =>
      buildWriter(
        { log, backfill: log, deadLetters: log, inserter: openEventInserter(clickHouseUrl), postgres },
        context,
      ),
    ),
  }
}

/** The fields of a route that the steps before a handler read. */
function routeLine({
  method,
  path,
  scope,
  alternativeScope,
  limit,
  cost,
  idempotent,
  containsGeneratedSecret,
  anyOrigin,
  quiet,
  body,
}: Route): string {
  const rule = {
    scope,
    orScope: alternativeScope,
    limit,
    cost,
    idempotent,
    mayHaveSecret: containsGeneratedSecret !== undefined || undefined,
    anyOrigin,
    quiet,
    types: body && mediaTypesOf(body),
    maxBytes: body?.maxBytes,
  }
  return `${method} ${path} ${lineJson(rule)}`
}

test('every service has the routes, pages, components and checks of the golden file', () => {
  const blocks = Object.entries(buildAll()).map(([heading, { service }]) => ({
    heading,
    text: [
      ...service.routes.map(routeLine),
      ...service.pages.map(({ path }) => `page ${path}`),
      ...service.components.map(({ name }) => `component ${name}`),
      ...service.checks.map(({ name, required }) => `check ${lineJson({ name, required })}`),
    ].join('\n'),
  }))
  expectGolden('routes/services.txt', joinBlocks(blocks))
})

test('every service has the metrics of the golden file', () => {
  const blocks = Object.entries(buildAll()).map(([heading, { metrics }]) => ({
    heading,
    text: metrics
      .getMetricsAsArray()
      .map((metric) => metric as typeof metric & { labelNames: string[]; upperBounds?: number[] })
      .filter(({ name }) => name.startsWith('sluice_'))
      .map(({ name, help, labelNames, upperBounds }) => lineJson({ name, help, labelNames, upperBounds }))
      .sort()
      .join('\n'),
  }))
  expectGolden('routes/metrics.txt', joinBlocks(blocks))
})

test('every operation has the rights and statuses of the golden file', () => {
  const { paths } = openApiDocument(operations, { version: '0.0.0' })
  const lines = Object.values(operations).map(({ id, method, path, section, rights, response }) => {
    const item = paths[path.replaceAll(/:(\w+)/g, '{$1}')]
    const described = item?.[method.toLowerCase() as 'get']
    return `${id} ${lineJson({ method, path, section, rights, status: response.status, statuses: Object.keys(described?.responses ?? {}) })}`
  })
  expectGolden('routes/operations.txt', `${lines.join('\n')}\n`)
})
