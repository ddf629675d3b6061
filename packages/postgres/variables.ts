import { urlVariable } from '@sluice/runtime/variables'

const description = 'Postgres: postgres://user:password@host:5432/database.'
const anyUrl = (): void => undefined

/** SLUICE_POSTGRES_URL of a service that runs alone. */
export const postgresUrl = urlVariable({ schemes: ['postgres', 'postgresql'], description, checkUrl: anyUrl })

/** SLUICE_POSTGRES_URL where the embedded Postgres in the data folder is the default. */
export const postgresUrlOrEmbedded = {
  ...urlVariable({
    schemes: ['postgres', 'postgresql', 'file'],
    description: `${description} Default: file:<SLUICE_DATA_DIR>/postgres.`,
    checkUrl: anyUrl,
  }),
  optional: true as const,
}
