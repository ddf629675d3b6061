import { isIPv6 } from 'node:net'
import { addKeyRefreshAge, keyCache } from '@sluice/access/key-cache'
import { migrate } from '@sluice/admin/migrate/migrate'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { s3CredentialsOf } from '@sluice/blobs/variables'
import { describeDurability } from '@sluice/event-log/kafka/describe-durability'
import type { EventLog } from '@sluice/event-log/log'
import { openBackfillLog, openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { openEventReader } from '@sluice/event-store/event-reader'
import { openExportReader } from '@sluice/event-store/exports/export-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { buildGateway } from '@sluice/gateway/build'
import type { Built, Context } from '@sluice/http/run-service'
import { openOutbound } from '@sluice/outbound/open-outbound'
import { outboundOptionsOf } from '@sluice/outbound/variables'
import { createAdminKey } from '@sluice/postgres/admin-key'
import { keyStore } from '@sluice/postgres/keys'
import { migrationTimes } from '@sluice/postgres/migrate'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { postgresTime } from '@sluice/postgres/time'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { buildQuery, queryAccess } from '@sluice/query/build'
import { openRedis } from '@sluice/redis/open'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { isRetryable, unavailable } from '@sluice/runtime/errors'
import { NotReadyError } from '@sluice/runtime/health'
import type { Logger } from '@sluice/runtime/logger'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { buildWorker } from '@sluice/worker/build'
import { type CanaryConfig, canaryOf } from '@sluice/worker/config'
import { buildWriter } from '@sluice/writer/build'
import { type EngineConfig, type EngineUrls, startEngines } from './engines.ts'
import { secretsKeyOf } from './secrets-key.ts'
import { signInLink } from './sign-in-link.ts'

/** Every service in one process, on one port and one set of engines. */
export async function buildStandalone(
  config: EngineConfig & {
    SLUICE_ADMIN_KEY: string | undefined
    SLUICE_AUTO_REGISTER_SITES: boolean
    SLUICE_COLLECT_URL: string | undefined
    SLUICE_SECRETS_KEY: string | undefined
    SLUICE_SECRETS_KEY_PREVIOUS: string | undefined
    SLUICE_HOST: string
    SLUICE_TLS_CERT?: string | undefined
  } & Parameters<typeof outboundOptionsOf>[0] &
    CanaryConfig,
  context: Context,
): Promise<Built> {
  const { logger, clock } = context
  const credentials = s3CredentialsOf(config)
  const canary = canaryOf(config)
  const engines = await startEngines(config, logger)
  const targets = outboundOptionsOf(config, isLoopback(config.SLUICE_HOST))
  const outbound = openOutbound({ ...targets, now: () => clock.now() })
  const secretsKey = await secretsKeyOf(config)
  await migrateEngines(engines).catch((error: unknown) => {
    throw withVariables(error, config)
  })

  const postgres = openPostgres(engines.postgres)
  const blobs = await openBlobStore(engines.blobs, { credentials })
  // The writer compares the times of a `file:` log with this clock.
  const logOptions = { logger, file: { now: () => clock.now() } }
  const log = await openEventLog(engines.log, logOptions)
  if (engines.isPostgresEmbedded) await forgetFormerLogs(postgres, log, logger)
  const backfill = await openBackfillLog(engines.log, log, logOptions)
  const deadLetters = await openDeadLetters(engines.log, logOptions)
  const inserter = openEventInserter(engines.clickHouse)
  const eraser = openEventEraser(engines.clickHouse)
  const eventReader = openEventReader(engines.clickHouseReader, { metrics: context.metrics })
  const exportReader = openExportReader(engines.clickHouseReader)
  const store = keyStore(postgres)
  const redis = openRedis(engines.redis, { logger })
  const keys = keyCache(store, context)
  addKeyRefreshAge(context.metrics, keys)
  const secrets = createSecretCipher(secretsKey, config.SLUICE_SECRETS_KEY_PREVIOUS)
  const workerEngines = {
    log,
    backfill,
    inserter,
    eraser,
    exportReader,
    eventReader,
    postgres,
    blobs,
    secrets,
    outbound,
  }
  const services = [
    buildGateway(
      config,
      { log, backfill, postgres, redis, describeDurability: () => describeDurability(engines.log, logger) },
      context,
    ),
    buildWriter({ log, backfill, deadLetters, inserter, postgres }, context),
    buildQuery(config, { eventReader, postgres, redis, blobs, keyCache: keys, secrets, targets }, context),
    // With the data of one machine, a deletion takes seconds, so erasures do not wait to delete their rows together.
    buildWorker(workerEngines, context, { deleteEveryMs: 0, canary }),
  ]
  // The very first start creates a key, unless SLUICE_ADMIN_KEY holds one.
  const firstKey =
    config.SLUICE_ADMIN_KEY === undefined && !(await store.hasAny()) ? await createAdminKey(store) : undefined
  // Printed at once: a start that fails later, on a port in use, must not leave a key that was never shown.
  if (firstKey) process.stdout.write(`Admin key, shown only once: ${firstKey.key}\n`)

  return {
    service: {
      routes: services.flatMap(({ routes }) => routes),
      pages: services.flatMap(({ pages }) => pages),
      components: services.flatMap(({ components }) => components),
      onStopping: () => {
        for (const { onStopping } of services) onStopping?.()
      },
      warnings: () => services.flatMap(({ warnings }) => warnings?.() ?? []),
      // Each engine is checked once. In one process, every engine is required.
      checks: [
        ...new Map(
          services.flatMap(({ checks }) => checks).map((check) => [check.name, { ...check, required: true }]),
        ).values(),
      ],
    },
    access: queryAccess(keys, redis, secrets),
    engines: [
      ...engines.components,
      closeOnStop('blobs', blobs),
      closeOnStop('outbound', outbound),
      closeOnStop('redis', redis),
      closeOnStop('postgres', postgres),
      closeOnStop('clickhouse', inserter),
      closeOnStop('clickhouse eraser', eraser),
      closeOnStop('clickhouse reader', eventReader),
      closeOnStop('clickhouse of exports', exportReader),
      clockPoller(clock, () => postgresTime(postgres)),
      keys,
      closeOnStop('log', log),
      closeOnStop('backfill log', backfill),
      closeOnStop('dead letters', deadLetters),
    ],
    onReady: async (server) => {
      const scheme = config.SLUICE_TLS_CERT === undefined ? 'http' : 'https'
      const origin = `${scheme}://${shownHost(config.SLUICE_HOST)}:${server.port()}`
      process.stdout.write(`Sluice is ready: ${origin}\n`)
      // Elsewhere the output may go to a log that others read.
      const link = isLoopback(config.SLUICE_HOST)
        ? await signInLink(origin, { keys: store, signInCodes: redis.signInCodes })
        : undefined
      if (link !== undefined) process.stdout.write(`Open the dashboard, signed in: ${link}\n`)
      await log.check().catch((error: unknown) => {
        if (error instanceof NotReadyError) process.stdout.write(`No event is accepted: ${error.message}.\n`)
      })
    },
  }
}

/** Brings all engines to the schemas of this build, on a connection whose statements may take long. */
async function migrateEngines({ components, ...urls }: EngineUrls): Promise<void> {
  const postgres = openPostgres(urls.postgres, migrationTimes)
  try {
    await migrate({
      postgres,
      clickHouseUrl: urls.clickHouse,
      logUrl: urls.log,
      hasEmbeddedEngines: components.length > 0 || urls.log.startsWith('file:'),
    })
  } finally {
    await postgres.close()
  }
}

/**
 * Only this process uses the embedded Postgres, so the watermarks of any other log are of one that was used before, and
 * is lost if it was a file. They would hold back `complete_until` without end.
 */
async function forgetFormerLogs(postgres: Postgres, log: Pick<EventLog, 'id'>, logger: Logger): Promise<void> {
  for (const id of await watermarkStore(postgres).keepOnly(await log.id()))
    logger.warn(
      { log_id: id },
      'a different event log was used before: events that exist only in that log will not be stored',
    )
}

/** The error of an engine that can't be reached, with the variables that name servers; any other error as it is. */
function withVariables(error: unknown, config: EngineConfig): unknown {
  const names = (['SLUICE_POSTGRES_URL', 'SLUICE_CLICKHOUSE_URL', 'SLUICE_LOG_URL'] as const).filter(
    (name) => config[name]?.startsWith('file:') === false,
  )
  if (!isRetryable(error) || error.needsOperator || names.length === 0) return error
  return unavailable(`${error.internal}. Start this engine, or correct ${names.join(' or ')}.`, error)
}

/** The host of the address by which a process that listens on `host` is reached from its own machine. */
function shownHost(host: string): string {
  if (['localhost', '127.0.0.1', '0.0.0.0', '::'].includes(host)) return 'localhost'
  return isIPv6(host) ? `[${host}]` : host
}

/** Whether a process that listens on `host` is reached from its own machine alone. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}
