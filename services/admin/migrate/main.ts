// npm run migrate [-- --plan | --wait]: brings the schemas and topics up to date.
import { waitForMutations } from '@sluice/event-store/mutations'
import { openPostgres } from '@sluice/postgres/open'
import { internalMessage } from '@sluice/runtime/errors'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { variables } from './config.ts'
import { migrate } from './migrate.ts'
import { planText } from './plan.ts'

const usage = `npm run migrate [-- --plan | --wait]
  --plan   prints the statements that would be executed, and changes nothing
  --wait   waits until ClickHouse has brought the stored events into the new form, which it does in the background`

const flag = { type: 'boolean', default: false } as const

try {
  const { plan, wait } = readArguments(usage, { options: { plan: flag, wait: flag } }, ({ values }) => {
    if (values.plan && values.wait) {
      throw new Error('--plan changes nothing that --wait could wait for: give one of them.')
    }
    return values
  })
  const config = loadCommandConfig(variables, process.env, console.error)
  // Creating an index on a large table takes long.
  const postgres = openPostgres(config.SLUICE_POSTGRES_URL, { queryTimeoutMs: 0 })
  const engines = { postgres, clickHouseUrl: config.SLUICE_CLICKHOUSE_URL, logUrl: config.SLUICE_LOG_URL }
  try {
    if (plan) console.log(await planText(engines))
    else {
      const done = await migrate(engines)
      console.log(
        `Postgres: ${listed(done.postgres)}\nClickHouse: ${listed(done.clickHouse)}\nTopics: ${listed(done.topics)}`,
      )
    }
  } finally {
    await postgres.close()
  }
  if (wait) {
    await waitForMutations(config.SLUICE_CLICKHOUSE_URL, (running) => {
      for (const { table, command, parts } of running)
        console.log(`ClickHouse: ${table}: ${command}: ${parts} parts left`)
    })
    console.log('ClickHouse: no mutation runs')
  }
} catch (error) {
  console.error(internalMessage(error))
  process.exitCode = 1
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'up to date' : `added ${names.join(', ')}`
}
