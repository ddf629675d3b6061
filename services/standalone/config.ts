import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { adminKey, listenVariables, standaloneEngines } from '@sluice/runtime/variables'

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
}
