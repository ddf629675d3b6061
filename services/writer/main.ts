import { openClickHouse } from '@sluice/clickhouse/client'
import { checkClickHouseSchema } from '@sluice/clickhouse/migrate'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { noAccess } from '@sluice/http/access'
import { runService } from '@sluice/http/run-service'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { closing } from '@sluice/runtime/supervisor'
import { buildWriter } from './build.ts'
import { variables } from './config.ts'

await runService({
  name: 'writer',
  variables,
  environment: process.env,
  build: async (config, context) => {
    const { logger } = context
    const clickHouse = openClickHouse(config.SLUICE_CLICKHOUSE_URL)
    // One small statement a second: one that hangs must not hold up a stop.
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL, { poolSize: 2, queryTimeoutMs: 2_000 })
    const log = await openEventLog(config.SLUICE_LOG_URL, { logger })
    const deadLetters = await openEventLog(deadLetterUrl(config.SLUICE_LOG_URL), { logger })
    return {
      service: buildWriter({ log, deadLetters, clickHouse, postgres }, context),
      access: noAccess,
      engines: [
        closing('clickhouse', clickHouse),
        closing('postgres', postgres),
        schemaGuard('clickhouse', () => checkClickHouseSchema(clickHouse), logger),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        closing('log', log),
        closing('dead letters', deadLetters),
      ],
    }
  },
})
