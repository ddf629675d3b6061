import { readCaFile } from '@sluice/runtime/ca-file'
import { parameterMistakes } from '@sluice/runtime/url-parameters'
import { urlVariable } from '@sluice/runtime/variables'

const description =
  'Postgres: postgres://user:password@host:5432/database[?sslmode=verify-full[&sslrootcert=<PEM file>]].'

/** The parameters about TLS that the driver obeys. */
const tlsParameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation']

/**
 * Requires that everything that the URL says about TLS is obeyed: the driver ignores what it does not know, such as
 * `sslmod`. It reads the file when it is opened, and its error does not name the variable.
 */
function requireUsableTls({ searchParams }: URL): void {
  const tls = new URLSearchParams([...searchParams].filter(([name]) => /^ssl/i.test(name)))
  const mistakes = parameterMistakes(tls, tlsParameters)
  readCaFile(searchParams.get('sslrootcert'), mistakes)
  if (mistakes.length > 0) throw new TypeError(mistakes.join('; ').replaceAll('"ca"', '"sslrootcert"'))
}

/** SLUICE_POSTGRES_URL of a service that runs alone. */
export const postgresUrl = urlVariable({
  schemes: ['postgres', 'postgresql'],
  description,
  checkUrl: requireUsableTls,
})

/** SLUICE_POSTGRES_URL where the embedded Postgres in the data folder is the default. */
export const postgresUrlOrEmbedded = {
  ...urlVariable({
    schemes: ['postgres', 'postgresql', 'file'],
    description: `${description} Default: file:<SLUICE_DATA_DIR>/postgres.`,
    checkUrl: requireUsableTls,
  }),
  optional: true as const,
}
