import { blobsUrl, s3Credentials } from '@sluice/blobs/variables'
import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import type { Config } from '@sluice/runtime/config'
import { previousSecretsKey, secretsKey } from '@sluice/runtime/variables'
import type { SecretsKeys } from './manifest.ts'

/** `npm run backup` and `npm run restore` need what they keep, and the keys whose fingerprints they compare. */
export const variables = {
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_BLOBS_URL: blobsUrl,
  ...s3Credentials,
  SLUICE_SECRETS_KEY: secretsKey,
  SLUICE_SECRETS_KEY_PREVIOUS: previousSecretsKey,
}

/** The keys of a command's configuration. */
export function secretsKeysOf(config: Config<typeof variables>): SecretsKeys {
  return { secretsKey: config.SLUICE_SECRETS_KEY, previousSecretsKey: config.SLUICE_SECRETS_KEY_PREVIOUS }
}
