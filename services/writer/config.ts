import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { listenVariables } from '@sluice/runtime/variables'

/** The writer's configuration when it runs in its own process. */
export const variables = {
  ...listenVariables(8082, '0.0.0.0'),
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
}
