import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { listenVariables, logUrl, postgresUrl } from '@sluice/runtime/variables'

/** The gateway's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8080, '0.0.0.0'),
  SLUICE_LOG_URL: { ...logUrl, check: parseKafkaUrl },
  SLUICE_POSTGRES_URL: postgresUrl,
}
