import { openClickHouse } from '@sluice/clickhouse/client'
import { checkClickHouseSchema } from '@sluice/clickhouse/migrate'
import { keyCache } from '@sluice/http/key-cache'
import { runService } from '@sluice/http/run-service'
import { keyStore } from '@sluice/postgres/keys'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { openRedis } from '@sluice/redis/open'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { closing } from '@sluice/runtime/supervisor'
import { buildQuery, questionTimeoutMs } from './build.ts'
import { variables } from './config.ts'

await runService({
  name: 'query',
  variables,
  environment: process.env,
  build: (config, context) => {
    const { logger } = context
    const clickHouse = openClickHouse(config.SLUICE_CLICKHOUSE_URL, { requestTimeoutMs: questionTimeoutMs })
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const redis = openRedis(config.SLUICE_REDIS_URL, { logger })
    const keys = keyCache(keyStore(postgres), logger)
    return Promise.resolve({
      service: buildQuery(config, { clickHouse, postgres, redis, keyCache: keys }, context),
      access: { keys, ...redis },
      engines: [
        closing('redis', redis),
        closing('clickhouse', clickHouse),
        closing('postgres', postgres),
        schemaGuard('clickhouse', () => checkClickHouseSchema(clickHouse), logger),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        keys,
      ],
    })
  },
})
