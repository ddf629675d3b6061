import { blobsUrl, s3Credentials } from '@sluice/blobs/variables'
import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { secretsKey } from '@sluice/runtime/variables'

/** `npm run backup` and `npm run restore` need what they keep, and the key whose fingerprint they compare. */
export const variables = {
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_BLOBS_URL: blobsUrl,
  ...s3Credentials,
  SLUICE_SECRETS_KEY: secretsKey,
}
