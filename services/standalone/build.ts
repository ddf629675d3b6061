import { openClickHouse } from '@sluice/clickhouse/client'
import { describeDurability } from '@sluice/event-log/ensure-topics'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { buildGateway } from '@sluice/gateway/build'
import { keyCache } from '@sluice/http/key-cache'
import type { Built, Context } from '@sluice/http/run-service'
import { migrate } from '@sluice/migrate/build'
import { createAdminKey } from '@sluice/postgres/admin-key'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import { openRedis } from '@sluice/redis/open'
import { buildQuery, questionTimeoutMs } from '@sluice/query/build'
import { closing } from '@sluice/runtime/supervisor'
import { buildWriter } from '@sluice/writer/build'
import { type EngineConfig, startEngines } from './engines.ts'

/** Every service in one process, on one port and one set of engines. */
export async function buildStandalone(
  config: EngineConfig & { SLUICE_ADMIN_KEY: string | undefined; SLUICE_AUTO_REGISTER_SITES: boolean },
  context: Context,
): Promise<Built> {
  const { logger } = context
  const engines = await startEngines(config, logger)
  const postgres = openPostgres(engines.postgres)
  await migrate({ postgres, clickHouseUrl: engines.clickHouse, logUrl: engines.log })

  const log = await openEventLog(engines.log, { logger })
  const deadLetters = await openEventLog(deadLetterUrl(engines.log), { logger })
  const clickHouse = openClickHouse(engines.clickHouse)
  const reader = openClickHouse(engines.clickHouseReader, { requestTimeoutMs: questionTimeoutMs })
  const store = keyStore(postgres)
  const redis = openRedis(engines.redis, { logger })
  const keys = keyCache(store, logger)
  const services = [
    buildGateway(
      config,
      { log, postgres, redis, describeDurability: () => describeDurability(engines.log, logger) },
      context,
    ),
    buildWriter({ log, deadLetters, clickHouse, postgres }, context),
    buildQuery(config, { clickHouse: reader, postgres, redis, keyCache: keys }, context),
  ]
  // The first start of all makes a key, unless one is given.
  const firstKey =
    config.SLUICE_ADMIN_KEY === undefined && !(await store.any()) ? await createAdminKey(store) : undefined
  // At once: a start that fails later, on a port in use, must not leave a key that nobody has seen.
  if (firstKey) process.stdout.write(`Admin key, shown this once: ${firstKey.key}\n`)

  return {
    service: {
      routes: services.flatMap(({ routes }) => routes),
      pages: services.flatMap(({ pages }) => pages),
      components: services.flatMap(({ components }) => components),
      // Each engine once; in one process none of them can be done without.
      warnings: () => services.flatMap(({ warnings }) => warnings?.() ?? []),
      checks: [
        ...new Map(
          services.flatMap(({ checks }) => checks).map((check) => [check.name, { ...check, required: true }]),
        ).values(),
      ],
    },
    access: { keys, ...redis },
    engines: [
      ...engines.components,
      closing('redis', redis),
      closing('postgres', postgres),
      closing('clickhouse', clickHouse),
      closing('clickhouse reader', reader),
      keys,
      closing('log', log),
      closing('dead letters', deadLetters),
    ],
    onReady: (server) => {
      process.stdout.write(`Sluice is ready: http://localhost:${server.port()}\n`)
    },
  }
}
