import { denyAll } from '@sluice/access/access'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { s3CredentialsOf } from '@sluice/blobs/variables'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { openEventReader } from '@sluice/event-store/event-reader'
import { openExportReader } from '@sluice/event-store/exports/export-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { runService } from '@sluice/http/run-service'
import { servicePage } from '@sluice/http/service-page'
import { openOutbound } from '@sluice/outbound/open-outbound'
import { outboundOptionsOf } from '@sluice/outbound/variables'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { postgresTime } from '@sluice/postgres/time'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { buildWorker } from './build.ts'
import { canaryOf } from './canary/variables.ts'
import { variables } from './config.ts'

await runService({
  name: 'worker',
  variables,
  environment: process.env,
  build: async (config, context) => {
    const { logger, metrics, clock } = context
    const canary = canaryOf(config)
    const outbound = openOutbound({ ...outboundOptionsOf(config), now: () => clock.now() })
    const secrets = createSecretCipher(config.SLUICE_SECRETS_KEY, config.SLUICE_SECRETS_KEY_PREVIOUS)
    const blobs = await openBlobStore(config.SLUICE_BLOBS_URL, { credentials: s3CredentialsOf(config) })
    const inserter = openEventInserter(config.SLUICE_CLICKHOUSE_URL)
    const eraser = openEventEraser(config.SLUICE_CLICKHOUSE_URL)
    const exportReader = openExportReader(config.SLUICE_CLICKHOUSE_URL)
    const eventReader = openEventReader(config.SLUICE_CLICKHOUSE_URL, { metrics })
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const log = await openEventLog(config.SLUICE_LOG_URL, { logger })
    const backfill = await openBackfillLog(config.SLUICE_LOG_URL, log, { logger })
    return {
      service: {
        ...buildWorker(
          { log, backfill, inserter, eraser, exportReader, eventReader, postgres, blobs, secrets, outbound },
          context,
          { canary },
        ),
        pages: [
          servicePage(
            'worker',
            'It carries out imports, exports and erasures, delivers webhooks and evaluates alert rules.',
          ),
        ],
      },
      access: denyAll,
      engines: [
        closeOnStop('blobs', blobs),
        closeOnStop('clickhouse', inserter),
        closeOnStop('clickhouse eraser', eraser),
        closeOnStop('clickhouse of exports', exportReader),
        closeOnStop('clickhouse of alerts', eventReader),
        closeOnStop('postgres', postgres),
        schemaGuard('clickhouse', () => inserter.checkSchema(), logger),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        clockPoller(clock, () => postgresTime(postgres)),
        closeOnStop('outbound', outbound),
        closeOnStop('log', log),
        closeOnStop('backfill log', backfill),
      ],
    }
  },
})
