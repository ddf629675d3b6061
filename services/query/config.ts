import { corsOrigins, trustedProxies } from '@sluice/http/variables'
import { parseRedisUrl } from '@sluice/redis/redis-url'
import {
  adminKey,
  autoRegisterSites,
  clickHouseUrl,
  listenVariables,
  postgresUrl,
  redisUrl,
} from '@sluice/runtime/variables'

/** The query service's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8081, '0.0.0.0'),
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_REDIS_URL: { ...redisUrl, check: parseRedisUrl },
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_CORS_ORIGINS: corsOrigins,
  SLUICE_ADMIN_KEY: adminKey,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
}
