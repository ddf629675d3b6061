// npm run restore -- <source>: docs/backup.md
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { secretsKeysOf, variables } from '../backup/config.ts'
import { openEngines } from '../backup/open-engines.ts'
import { timeText } from '../time-text.ts'
import { reconciledLines } from './reconciled-lines.ts'
import { finishRestore, restore, type Restored } from './restore.ts'

const usage = `npm run restore -- <source> [--clickhouse-only] [--accept-loss]
The source is the address that you gave to npm run backup.
  --clickhouse-only  restores the events alone: Postgres and the files stay as they are
  --accept-loss      restores although the log no longer holds all events since the backup (docs/backup.md)`

const flag = { type: 'boolean', default: false } as const
const options = { 'clickhouse-only': flag, 'accept-loss': flag }

const say = (line: string): void => {
  console.log(line)
}

function report({ manifest, losses, ...found }: Restored, clickHouseOnly: boolean): void {
  say(`${manifest.backupId} of ${timeText(manifest.at)} is restored.`)
  for (const loss of losses) say(loss)
  say(`Erasures repeated: ${found.erasures.length}.`)
  for (const { keyId, name, revokedAt } of found.revokedKeys) {
    say(`Revoked since the backup, and still: ${keyId} (${name}), ${timeText(revokedAt)}.`)
  }
  for (const line of reconciledLines(found)) say(line)
  for (const exportId of found.repeatedRuns)
    say(`The file of the run ${exportId} was not in the backup: it is made again.`)
  for (const exportId of found.expiredExports)
    say(`The file of the export ${exportId} was not in the backup: export it again.`)
  if (!clickHouseOnly) {
    const at = timeText(manifest.postgres.at)
    say(`Postgres is as of ${at}: revoke again the keys, and request again the erasures, of after that.`)
    say('Before you start the services, remove the answers stored in Redis: docs/backup.md#stored-answers.')
  }
}

await runCommand(async () => {
  const { source, clickHouseOnly, acceptLoss } = readArguments(
    usage,
    { allowPositionals: true, options },
    ({ positionals: [first, ...others], values }) => {
      if (first === undefined || others.length > 0) throw new Error('One source is needed.')
      return { source: first, clickHouseOnly: values['clickhouse-only'], acceptLoss: values['accept-loss'] }
    },
  )
  const config = loadCommandConfig(variables, process.env, console.error)
  const { engines, open, close } = await openEngines(config, { searchPath: process.env.PATH, blobsMustExist: false })
  try {
    const restoreEngines = { ...engines, clickHouseUrl: config.SLUICE_CLICKHOUSE_URL }
    const restored = await restore(restoreEngines, {
      source: await open(source, 'The source', { mustExist: true }),
      ...secretsKeysOf(config),
      clickHouseOnly,
      acceptLoss,
      say,
    })
    // Printed before a further step can fail: no other output lists what was revoked and erased.
    report(restored, clickHouseOnly)
    await finishRestore(restoreEngines, restored.manifest, source)
    say('Start the services: the writers store what the log holds since.')
  } finally {
    await close()
  }
})
