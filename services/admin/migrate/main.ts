// npm run migrate [-- [--plan | --wait] [--accept-loss]]: brings the schemas and topics up to date.
import { waitForMutations } from '@sluice/event-store/clickhouse/mutations'
import type { Reconciled } from '@sluice/postgres/after-restore'
import { migrationTimes } from '@sluice/postgres/migrate'
import { withPostgres } from '@sluice/postgres/open'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { reconciledLines } from '../restore/reconciled-lines.ts'
import { variables } from './config.ts'
import { migrate } from './migrate.ts'
import { planText } from './plan.ts'

const usage = `npm run migrate [-- [--plan | --wait] [--accept-loss]]
  --plan         prints the statements that would be executed, and changes nothing
  --wait         waits until ClickHouse has brought the stored events into the new form, which it does in the background
  --accept-loss  when ClickHouse or Postgres is lost and there is no backup: begins with an empty one (docs/backup.md)`

const flag = { type: 'boolean', default: false } as const

await runCommand(async () => {
  const options = { plan: flag, wait: flag, 'accept-loss': flag }
  const {
    plan,
    wait,
    'accept-loss': acceptLoss,
  } = readArguments(usage, { options }, ({ values }) => {
    if (values.plan && values.wait) {
      throw new Error('--plan changes nothing that --wait could wait for: give one of them.')
    }
    return values
  })
  const config = loadCommandConfig(variables, process.env, console.error)
  await withPostgres(config.SLUICE_POSTGRES_URL, migrationTimes, async (postgres) => {
    const engines = {
      postgres,
      clickHouseUrl: config.SLUICE_CLICKHOUSE_URL,
      logUrl: config.SLUICE_LOG_URL,
      acceptLoss,
    }
    if (plan) console.log(await planText(engines))
    else {
      const done = await migrate(engines)
      console.log(
        `Postgres: ${listed(done.postgres)}\nClickHouse: ${listed(done.clickHouse)}\nTopics: ${listed(done.topics)}`,
      )
      if (done.reconciled !== undefined) reportLoss(done.reconciled)
    }
  })
  if (wait) {
    await waitForMutations(config.SLUICE_CLICKHOUSE_URL, (running) => {
      for (const { table, command, parts } of running)
        console.log(`ClickHouse: ${table}: ${command}: ${parts} parts left`)
    })
    console.log('ClickHouse: no mutations are running')
  }
})

function reportLoss(reconciled: Reconciled): void {
  console.log('ClickHouse begins with an empty store: the writers store again what the log still holds.')
  console.log(`Erasures queued again: ${reconciled.erasures.length}.`)
  for (const line of reconciledLines(reconciled)) console.log(line)
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'up to date' : `added ${names.join(', ')}`
}
