import { adminKey, clickHouseUrl, listenVariables, postgresUrl } from '@sluice/runtime/variables'

/** The query service's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8081, '0.0.0.0'),
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_ADMIN_KEY: adminKey,
}
