import { openPostgres } from '@sluice/postgres/open'
import { internalMessage } from '@sluice/runtime/errors'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { variables } from './config.ts'
import { migrate } from './migrate.ts'

try {
  const config = loadCommandConfig(variables, process.env, console.error)
  // Creating an index on a large table takes long.
  const postgres = openPostgres(config.SLUICE_POSTGRES_URL, { queryTimeoutMs: 0 })
  try {
    const done = await migrate({
      postgres,
      clickHouseUrl: config.SLUICE_CLICKHOUSE_URL,
      logUrl: config.SLUICE_LOG_URL,
    })
    console.log(
      `Postgres: ${listed(done.postgres)}\nClickHouse: ${listed(done.clickHouse)}\nTopics: ${listed(done.topics)}`,
    )
  } finally {
    await postgres.close()
  }
} catch (error) {
  console.error(internalMessage(error))
  process.exitCode = 1
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'up to date' : `added ${names.join(', ')}`
}
