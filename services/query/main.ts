import { addKeyRefreshAge, keyCache } from '@sluice/access/key-cache'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { s3CredentialsOf } from '@sluice/blobs/variables'
import { openEventReader } from '@sluice/event-store/event-reader'
import { runService } from '@sluice/http/run-service'
import { outboundOptionsOf } from '@sluice/outbound/variables'
import { keyStore } from '@sluice/postgres/keys'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { postgresTime } from '@sluice/postgres/time'
import { openRedis } from '@sluice/redis/open'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { buildQuery, queryAccess } from './build.ts'
import { variables } from './config.ts'

/** People wait for the answers, which may take longer than those to events. */
const lookupTimeoutMs = 5_000

await runService({
  name: 'query',
  variables,
  environment: process.env,
  build: async (config, context) => {
    const { logger, metrics, clock } = context
    const blobs = await openBlobStore(config.SLUICE_BLOBS_URL, { credentials: s3CredentialsOf(config) })
    const eventReader = openEventReader(config.SLUICE_CLICKHOUSE_URL, { metrics })
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const redis = openRedis(config.SLUICE_REDIS_URL, { logger })
    const keys = keyCache(keyStore(postgres), context, { lookupTimeoutMs })
    addKeyRefreshAge(metrics, keys)
    const secrets = createSecretCipher(config.SLUICE_SECRETS_KEY, config.SLUICE_SECRETS_KEY_PREVIOUS)
    return {
      service: buildQuery(
        config,
        { eventReader, postgres, redis, blobs, keyCache: keys, secrets, targets: outboundOptionsOf(config) },
        context,
      ),
      access: queryAccess(keys, redis, secrets),
      engines: [
        closeOnStop('blobs', blobs),
        closeOnStop('redis', redis),
        closeOnStop('clickhouse', eventReader),
        closeOnStop('postgres', postgres),
        schemaGuard('clickhouse', () => eventReader.checkSchema(), logger),
        schemaGuard('postgres', () => checkPostgresSchema(postgres), logger),
        clockPoller(clock, () => postgresTime(postgres)),
        keys,
      ],
    }
  },
})
