import { addKeyRefreshAge, keyCache } from '@sluice/access/key-cache'
import { describeDurability } from '@sluice/event-log/kafka/describe-durability'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { runService } from '@sluice/http/run-service'
import { servicePage } from '@sluice/http/service-page'
import { keyStore } from '@sluice/postgres/keys'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { postgresTime } from '@sluice/postgres/time'
import { openRedis } from '@sluice/redis/open'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { buildGateway } from './build.ts'
import { variables } from './config.ts'

await runService({
  name: 'gateway',
  variables,
  environment: process.env,
  build: async (config, context) => {
    const { logger, clock } = context
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const log = await openEventLog(config.SLUICE_LOG_URL, { logger })
    const backfill = await openBackfillLog(config.SLUICE_LOG_URL, log, { logger })
    const redis = openRedis(config.SLUICE_REDIS_URL, { logger })
    const keys = keyCache(keyStore(postgres), context)
    addKeyRefreshAge(context.metrics, keys)
    const service = buildGateway(
      config,
      {
        log,
        backfill,
        postgres,
        redis,
        describeDurability: () => describeDurability(config.SLUICE_LOG_URL, logger),
      },
      context,
    )
    return {
      service: {
        ...service,
        pages: [
          ...service.pages,
          servicePage(
            'gateway',
            'It takes events at <code>POST /collect</code> and <code>POST /collect/batch</code>, and from clients of Segment at <code>/v1</code>.',
          ),
        ],
      },
      access: { keys, ...redis },
      engines: [
        closeOnStop('redis', redis),
        closeOnStop('postgres', postgres),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        clockPoller(clock, () => postgresTime(postgres)),
        keys,
        closeOnStop('log', log),
        closeOnStop('backfill log', backfill),
      ],
    }
  },
})
