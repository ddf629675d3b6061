import { operatorText } from '@sluice/contracts/errors'
import { openPostgres } from '@sluice/postgres/open'
import { loadConfig } from '@sluice/runtime/config'
import { migrate } from './build.ts'
import { variables } from './config.ts'

try {
  const config = loadConfig(variables, process.env)
  // An index on a large table takes its time.
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
  console.error(operatorText(error))
  process.exitCode = 1
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'up to date' : `added ${names.join(', ')}`
}
