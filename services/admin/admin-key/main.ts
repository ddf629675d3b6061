// Replaces the admin key of an installation on servers and prints the new one; `npm run admin-key` also finds the
// embedded Postgres, which an image of the services does not carry (docs/http-interface.md#first-admin-key).
import { withPostgres } from '@sluice/postgres/open'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { variables } from './config.ts'
import { adminKeyUsage, printNewAdminKey } from './print-new-admin-key.ts'

await runCommand(async () => {
  readArguments(adminKeyUsage, {}, () => undefined)
  const url = loadCommandConfig(variables, process.env, console.error).SLUICE_POSTGRES_URL
  await withPostgres(url, {}, async (postgres) => {
    console.error(await printNewAdminKey(postgres, `at ${new URL(url).host}`))
  })
})
