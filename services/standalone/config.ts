import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { corsOrigins, trustedProxies } from '@sluice/http/variables'
import { adminKey, autoRegisterSites, listenVariables, standaloneEngines } from '@sluice/runtime/variables'

const listen = listenVariables(8080, '127.0.0.1')

/** Standalone's configuration: nothing has to be set. */
export const variables = {
  ...listen,
  // The terminal is for people here: the address, the first key, and what goes wrong.
  SLUICE_LOG_LEVEL: { ...listen.SLUICE_LOG_LEVEL, default: 'warn' },
  ...standaloneEngines,
  SLUICE_LOG_URL: {
    ...standaloneEngines.SLUICE_LOG_URL,
    check: (url: string) => {
      if (url.startsWith('kafka:')) parseKafkaUrl(url)
    },
  },
  SLUICE_ADMIN_KEY: adminKey,
  SLUICE_TRUSTED_PROXIES: trustedProxies,
  SLUICE_CORS_ORIGINS: corsOrigins,
  SLUICE_AUTO_REGISTER_SITES: autoRegisterSites,
}
