import { denyAll } from '@sluice/access/access'
import { openBackfillLog, openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { runService } from '@sluice/http/run-service'
import { servicePage } from '@sluice/http/service-page'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { postgresTime } from '@sluice/postgres/time'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { buildWriter } from './build.ts'
import { variables } from './config.ts'

await runService({
  name: 'writer',
  variables,
  environment: process.env,
  build: async (config, context) => {
    const { logger, clock } = context
    const inserter = openEventInserter(config.SLUICE_CLICKHOUSE_URL)
    // The writer runs one small statement a second. A statement that hangs must not delay a stop.
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL, {
      poolSize: 2,
      connectTimeoutMs: 2_000,
      queryTimeoutMs: 2_000,
    })
    const log = await openEventLog(config.SLUICE_LOG_URL, { logger })
    const backfill = await openBackfillLog(config.SLUICE_LOG_URL, log, { logger })
    const deadLetters = await openDeadLetters(config.SLUICE_LOG_URL, { logger })
    return {
      service: {
        ...buildWriter({ log, backfill, deadLetters, inserter, postgres }, context),
        pages: [servicePage('writer', 'It stores the events of the log.')],
      },
      access: denyAll,
      engines: [
        closeOnStop('clickhouse', inserter),
        closeOnStop('postgres', postgres),
        schemaGuard('clickhouse', () => inserter.checkSchema(), logger),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        clockPoller(clock, () => postgresTime(postgres)),
        closeOnStop('log', log),
        closeOnStop('backfill log', backfill),
        closeOnStop('dead letters', deadLetters),
      ],
    }
  },
})
