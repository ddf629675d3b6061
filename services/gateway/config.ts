import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { trustedProxies } from '@sluice/http/variables'
import { parseRedisUrl } from '@sluice/redis/redis-url'
import { autoRegisterSites, listenVariables, logUrl, postgresUrl, redisUrl } from '@sluice/runtime/variables'

/** The gateway's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8080, '0.0.0.0'),
  SLUICE_LOG_URL: { ...logUrl, check: parseKafkaUrl },
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_REDIS_URL: { ...redisUrl, check: parseRedisUrl },
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
}
