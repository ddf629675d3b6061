import { adminKey, autoRegisterSites } from '@sluice/access/variables'
import { blobsUrlOrEmbedded, s3Credentials } from '@sluice/blobs/variables'
import { logUrlOrEmbedded } from '@sluice/event-log/variables'
import { clickHouseUrlOrEmbedded } from '@sluice/event-store/clickhouse/variables'
import { collectUrl, corsOrigins, drainSeconds, keepAliveSeconds, trustedProxies } from '@sluice/http/variables'
import { smtp, webhookTargets } from '@sluice/outbound/variables'
import { postgresUrlOrEmbedded } from '@sluice/postgres/variables'
import { redisUrlOrMemory } from '@sluice/redis/variables'
import { dataDirectory, listenVariables, previousSecretsKey, secretsKeyOrOwn } from '@sluice/runtime/variables'
import { canaryVariables } from '@sluice/worker/config'

const listen = listenVariables(8080, '127.0.0.1')

/** The engines of standalone: embedded ones in the data folder unless a URL says otherwise. */
export const engineVariables = {
  SLUICE_DATA_DIR: dataDirectory,
  SLUICE_LOG_URL: logUrlOrEmbedded,
  SLUICE_CLICKHOUSE_URL: clickHouseUrlOrEmbedded,
  SLUICE_POSTGRES_URL: postgresUrlOrEmbedded,
  SLUICE_REDIS_URL: redisUrlOrMemory,
  SLUICE_BLOBS_URL: blobsUrlOrEmbedded,
  ...s3Credentials,
  SLUICE_SECRETS_KEY: secretsKeyOrOwn,
  SLUICE_SECRETS_KEY_PREVIOUS: previousSecretsKey,
}

/** Standalone's configuration: nothing has to be set. */
export const variables = {
  ...listen,
  // Standalone usually runs in a terminal: it prints the address, the first key and failures, not a line per request.
  SLUICE_LOG_LEVEL: { ...listen.SLUICE_LOG_LEVEL, default: 'warn' },
  ...engineVariables,
  SLUICE_ADMIN_KEY: adminKey,
  ...webhookTargets,
  ...smtp,
  ...canaryVariables,
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_CORS_ORIGINS: corsOrigins,
  SLUICE_COLLECT_URL: collectUrl,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
  SLUICE_KEEP_ALIVE_SECONDS: keepAliveSeconds,
  SLUICE_DRAIN_SECONDS: drainSeconds(0),
}
