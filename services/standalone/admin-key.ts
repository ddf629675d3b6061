// npm run admin-key: replaces the admin key and prints the new one (docs/http-interface.md#first-admin-key).
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { adminKeyUsage, printNewAdminKey } from '@sluice/admin/admin-key/print-new-admin-key'
import { attachPostgres, startPostgres } from '@sluice/engines/postgres'
import { openPostgres } from '@sluice/postgres/open'
import { postgresUrlOrEmbedded } from '@sluice/postgres/variables'
import { folderOf } from '@sluice/runtime/folder-of'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { dataDirectory } from '@sluice/runtime/variables'

const variables = {
  SLUICE_DATA_DIR: dataDirectory,
  SLUICE_POSTGRES_URL: postgresUrlOrEmbedded,
}

/**
 * The Postgres that SLUICE_POSTGRES_URL names, and its place in words; an embedded one, which is the default, is started
 * unless it is running. Throws an Error when its folder has none.
 */
async function findPostgres(): Promise<{ url: string; place: string; stop: () => Promise<void> }> {
  const config = loadCommandConfig(variables, process.env, console.error)
  const leaveRunning = (): Promise<void> => Promise.resolve()
  const url = config.SLUICE_POSTGRES_URL ?? `file:${config.SLUICE_DATA_DIR}/postgres`
  if (!url.startsWith('file:')) return { url, place: `at ${new URL(url).host}`, stop: leaveRunning }
  const dir = folderOf(url)
  const place = `in ${dir}`
  const running = attachPostgres(dir)
  if (running) return { url: running.url, place, stop: leaveRunning }
  // A start would create a Postgres, whose key would be valid nowhere else.
  if (!existsSync(join(dir, 'data'))) {
    throw new Error(
      `There is no Postgres ${place}. Set SLUICE_DATA_DIR or SLUICE_POSTGRES_URL; the first start of Sluice creates it and prints an admin key.`,
    )
  }
  const started = await startPostgres({ dir })
  return { url: started.url, place, stop: () => started.stop() }
}

await runCommand(async () => {
  readArguments(adminKeyUsage, {}, () => undefined)
  const found = await findPostgres()
  const postgres = openPostgres(found.url)
  try {
    console.error(await printNewAdminKey(postgres, found.place))
  } finally {
    await postgres.close()
    await found.stop()
  }
})
