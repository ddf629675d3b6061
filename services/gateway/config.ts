import { autoRegisterSites } from '@sluice/access/variables'
import { logUrl } from '@sluice/event-log/variables'
import { drainSeconds, keepAliveSeconds, trustedProxies } from '@sluice/http/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { redisUrl } from '@sluice/redis/variables'
import { listenVariables } from '@sluice/runtime/variables'

/** The configuration of the gateway when it runs as a process of its own. */
export const variables = {
  ...listenVariables(8080, '0.0.0.0'),
  SLUICE_LOG_URL: logUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_REDIS_URL: redisUrl,
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
  SLUICE_KEEP_ALIVE_SECONDS: keepAliveSeconds,
  SLUICE_DRAIN_SECONDS: drainSeconds(4),
}
