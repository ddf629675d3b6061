import { logUrlOrEmbedded } from '@sluice/event-log/variables'
import { postgresUrlOrEmbedded } from '@sluice/postgres/variables'
import { dataDirectory } from '@sluice/runtime/variables'

/** `npm run replay-dead-letters` also finds the embedded log of standalone. */
export const variables = {
  SLUICE_DATA_DIR: dataDirectory,
  SLUICE_LOG_URL: logUrlOrEmbedded,
  // A `file:` log notes replays itself.
  SLUICE_POSTGRES_URL: postgresUrlOrEmbedded,
}
