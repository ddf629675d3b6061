import { adminKey, autoRegisterSites } from '@sluice/access/variables'
import { blobsUrl, s3Credentials } from '@sluice/blobs/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import {
  collectUrl,
  corsOrigins,
  drainSeconds,
  keepAliveSeconds,
  stopSeconds,
  trustedProxies,
} from '@sluice/http/variables'
import { smtp, webhookTargets } from '@sluice/outbound/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { redisUrl } from '@sluice/redis/variables'
import { listenVariables, previousSecretsKey, secretsKey } from '@sluice/runtime/variables'

/** The query service's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8081, '0.0.0.0'),
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_REDIS_URL: redisUrl,
  SLUICE_BLOBS_URL: blobsUrl,
  ...s3Credentials,
  SLUICE_SECRETS_KEY: secretsKey,
  SLUICE_SECRETS_KEY_PREVIOUS: previousSecretsKey,
  ...webhookTargets,
  ...smtp,
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_CORS_ORIGINS: corsOrigins,
  SLUICE_COLLECT_URL: collectUrl,
  SLUICE_ADMIN_KEY: adminKey,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
  SLUICE_KEEP_ALIVE_SECONDS: keepAliveSeconds,
  SLUICE_DRAIN_SECONDS: drainSeconds(4),
  SLUICE_STOP_SECONDS: stopSeconds,
}
