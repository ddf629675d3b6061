import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { clickHouseUrl, listenVariables, logUrl, postgresUrl, standaloneEngines } from '@sluice/runtime/variables'

/** The writer's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8082, '0.0.0.0'),
  SLUICE_LOG_URL: { ...logUrl, check: parseKafkaUrl },
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
}

/** `npm run replay-dead-letters` finds a standalone's log too. */
export const replayVariables = {
  SLUICE_DATA_DIR: standaloneEngines.SLUICE_DATA_DIR,
  SLUICE_LOG_URL: {
    ...standaloneEngines.SLUICE_LOG_URL,
    check: (url: string) => {
      if (url.startsWith('kafka:')) parseKafkaUrl(url)
    },
  },
}
