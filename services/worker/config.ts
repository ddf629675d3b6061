import { blobsUrl, s3Credentials } from '@sluice/blobs/variables'
import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { smtp, webhookTargets } from '@sluice/outbound/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { listenVariables, previousSecretsKey, secretsKey } from '@sluice/runtime/variables'
import { canaryVariables } from './canary/variables.ts'

/** Used by standalone, which also runs the worker's canary. */
export { type CanaryConfig, canaryOf, canaryVariables } from './canary/variables.ts'

/** The worker's configuration when it runs alone. */
export const variables = {
  ...listenVariables(8083, '0.0.0.0'),
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_BLOBS_URL: blobsUrl,
  ...s3Credentials,
  SLUICE_SECRETS_KEY: secretsKey,
  SLUICE_SECRETS_KEY_PREVIOUS: previousSecretsKey,
  ...webhookTargets,
  ...smtp,
  ...canaryVariables,
}
