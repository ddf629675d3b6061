import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { postgresUrl } from '@sluice/postgres/variables'

/** `npm run migrate` needs all three engines. */
export const variables = {
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
}
