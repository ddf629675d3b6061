import { readCaFile } from '@sluice/runtime/ca-file'
import { parameterMistakes } from '@sluice/runtime/url-parameters'
import { urlVariable } from '@sluice/runtime/variables'

const description =
  'Postgres: postgres://user:password@host:5432/database[?sslmode=verify-full[&sslrootcert=<PEM file>]].'

/** The TLS parameters that the driver supports. */
const tlsParameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation']

/**
 * Requires that the driver supports all TLS parameters of the URL: it ignores unknown ones, such as `sslmod`. Also
 * reads the file of certificates, because the driver would read it at the first connection, and its error would not
 * name the variable.
 */
function requireUsableTls({ searchParams }: URL): void {
  const tls = new URLSearchParams([...searchParams].filter(([name]) => /^ssl/i.test(name)))
  const mistakes = parameterMistakes(tls, tlsParameters)
  readCaFile(searchParams.get('sslrootcert'), mistakes)
  if (mistakes.length > 0) throw new TypeError(mistakes.join('; ').replaceAll('"ca"', '"sslrootcert"'))
}

/** SLUICE_POSTGRES_URL of a service that runs in its own process. */
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
