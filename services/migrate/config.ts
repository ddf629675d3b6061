import { parseKafkaUrl } from '@sluice/event-log/kafka-url'
import { clickHouseUrl, logUrl, postgresUrl } from '@sluice/runtime/variables'

/** `npm run migrate` needs all three engines. */
export const variables = {
  SLUICE_LOG_URL: { ...logUrl, check: parseKafkaUrl },
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
}
