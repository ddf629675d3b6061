import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { clickHouseUrl, listenVariables, logUrl } from '@sluice/runtime/variables'

/** The writer's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8082, '0.0.0.0'),
  SLUICE_LOG_URL: { ...logUrl, check: parseKafkaUrl },
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
}
