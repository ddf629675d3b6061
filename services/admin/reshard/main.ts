// npm run reshard -- --to <cluster> --database <new name> [--plan | --finish | --cancel]: docs/scale-out.md
import { withPostgres } from '@sluice/postgres/open'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { variables } from './config.ts'
import { cancelReshard, copyEvents, finishReshard, planReshard } from './reshard.ts'

const usage = `npm run reshard -- --to <cluster> --database <new name> [--plan | --finish | --cancel]
Doubles the number of ClickHouse shards: copies the events to a new database on a cluster of twice as many servers, while the
services run. SLUICE_CLICKHOUSE_URL still names the old store.
  --plan     prints what each server would get, and changes nothing
  --finish   copies what has changed since, with the query services, writers and workers stopped, and ends the reshard
  --cancel   cancels a reshard that is not finished`

const flag = { type: 'boolean', default: false } as const
const text = { type: 'string' } as const
const steps = { plan: planReshard, finish: finishReshard, cancel: cancelReshard }

await runCommand(async () => {
  const { run, cluster, database } = readArguments(
    usage,
    { options: { to: text, database: text, plan: flag, finish: flag, cancel: flag } },
    ({ values: { to, database, ...flags } }) => {
      if (to === undefined || database === undefined) throw new Error('--to and --database are needed.')
      const [step, ...others] = (['plan', 'finish', 'cancel'] as const).filter((name) => flags[name])
      if (others.length > 0) throw new Error('--plan, --finish and --cancel exclude each other.')
      return { run: step === undefined ? copyEvents : steps[step], cluster: to, database }
    },
  )
  const config = loadCommandConfig(variables, process.env, console.error)
  await withPostgres(config.SLUICE_POSTGRES_URL, { queryTimeoutMs: 0 }, (postgres) => {
    const engines = { postgres, clickHouseUrl: config.SLUICE_CLICKHOUSE_URL, logUrl: config.SLUICE_LOG_URL }
    return run(engines, { cluster, database, say: (line) => console.log(line) })
  })
})
