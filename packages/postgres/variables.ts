import { readCaFile } from '@sluice/runtime/ca-file'
import { urlVariable } from '@sluice/runtime/variables'

const description =
  'Postgres: postgres://user:password@host:5432/database[?sslmode=verify-full[&sslrootcert=<PEM file>]].'

/** The driver reads the file when it is opened, and its error does not name the variable. */
function requireUsableFile({ searchParams }: URL): void {
  const mistakes: string[] = []
  readCaFile(searchParams.get('sslrootcert'), mistakes)
  if (mistakes.length > 0) throw new TypeError(mistakes.join('; ').replaceAll('"ca"', '"sslrootcert"'))
}

/** SLUICE_POSTGRES_URL of a service that runs alone. */
export const postgresUrl = urlVariable({
  schemes: ['postgres', 'postgresql'],
  description,
  checkUrl: requireUsableFile,
})

/** SLUICE_POSTGRES_URL where the embedded Postgres in the data folder is the default. */
export const postgresUrlOrEmbedded = {
  ...urlVariable({
    schemes: ['postgres', 'postgresql', 'file'],
    description: `${description} Default: file:<SLUICE_DATA_DIR>/postgres.`,
    checkUrl: requireUsableFile,
  }),
  optional: true as const,
}
