import { postgresUrl } from '@sluice/postgres/variables'

/** The command needs nothing but Postgres. */
export const variables = { SLUICE_POSTGRES_URL: postgresUrl }
