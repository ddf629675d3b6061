// npm run admin-key: makes an admin key and prints it; revokes the ones that were made this way, or at a start, before.
import { operatorText } from '@sluice/contracts/errors'
import { attachPostgres, startPostgres } from '@sluice/engines/postgres'
import { createAdminKey } from '@sluice/postgres/admin-key'
import { keyStore } from '@sluice/postgres/keys'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { loadConfig } from '@sluice/runtime/config'
import { postgresUrl, standaloneEngines } from '@sluice/runtime/variables'

const variables = {
  SLUICE_DATA_DIR: standaloneEngines.SLUICE_DATA_DIR,
  SLUICE_POSTGRES_URL: { ...postgresUrl, optional: true as const },
}

/** Production's Postgres by URL, else the embedded one, which may be running or not. */
async function findPostgres(): Promise<{ url: string; stop: () => Promise<void> }> {
  const config = loadConfig(variables, process.env)
  const notOurs = (): Promise<void> => Promise.resolve()
  if (config.SLUICE_POSTGRES_URL !== undefined) return { url: config.SLUICE_POSTGRES_URL, stop: notOurs }
  const dir = `${config.SLUICE_DATA_DIR}/postgres`
  const running = attachPostgres(dir)
  return running ? { url: running.url, stop: notOurs } : startPostgres({ dir })
}

try {
  const found = await findPostgres()
  const postgres = openPostgres(found.url)
  try {
    await withMigrationLock(postgres, () => migratePostgres(postgres))
    const keys = keyStore(postgres)
    const created = await createAdminKey(keys)
    if (!created) throw new Error('a new key has the hash of an old one')
    const revoked = await keys.revokeBootstrapKeysExcept(created.keyId)
    console.log(created.key)
    console.error(
      revoked === 0
        ? 'This admin key is not shown again.'
        : `This admin key is not shown again. Revoked before it: ${revoked}.`,
    )
  } finally {
    await postgres.close()
    await found.stop()
  }
} catch (error) {
  console.error(operatorText(error))
  process.exitCode = 1
}
