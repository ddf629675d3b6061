// npm run restore -- <source>: docs/backup.md
import { parseArgs } from 'node:util'
import { loadConfig } from '@sluice/runtime/config'
import { internalMessage } from '@sluice/runtime/errors'
import { variables } from '../backup/config.ts'
import { openEngines } from '../backup/open-engines.ts'
import { restore, type Restored } from './restore.ts'

const usage = `npm run restore -- <source> [--clickhouse-only] [--accept-loss]
The source is what was the target of npm run backup.`

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        'clickhouse-only': { type: 'boolean', default: false },
        'accept-loss': { type: 'boolean', default: false },
      },
    })
    const [source, ...others] = positionals
    if (source === undefined || others.length > 0) throw new Error('One source is needed.')
    return { source, clickHouseOnly: values['clickhouse-only'], acceptLoss: values['accept-loss'] }
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${usage}`, { cause: error })
  }
}

const say = (line: string): void => {
  console.log(line)
}

function report({ manifest, losses, ...found }: Restored, clickHouseOnly: boolean): void {
  say(
    `${manifest.backupId} of ${timeText(manifest.at)} is restored. Start the services: the writers store what the log holds since.`,
  )
  for (const loss of losses) say(loss)
  say(`Erasures repeated: ${found.erasures.length}.`)
  for (const { erasureId, siteId } of found.forgotten) {
    say(`The erasure ${erasureId} of the site ${siteId} can't be repeated: request it again.`)
  }
  for (const { keyId, name, revokedAt } of found.revokedKeys) {
    say(`Revoked since the backup, and still: ${keyId} (${name}), ${revokedAt.toISOString()}.`)
  }
  for (const importId of found.repeatedImports) say(`The import ${importId} of users begins anew.`)
  for (const importId of found.lostImports)
    say(`The import ${importId} of users ended after the backup: upload it again.`)
  if (!clickHouseOnly) {
    const at = timeText(manifest.postgres.at)
    say(`Postgres is as of ${at}: revoke again the keys, and request again the erasures, of after that.`)
  }
}

function timeText(at: number): string {
  return new Date(at).toISOString()
}

try {
  const { source, clickHouseOnly, acceptLoss } = readArguments()
  const config = loadConfig(variables, process.env)
  const { engines, open, close } = await openEngines(config, process.env.PATH)
  try {
    const restored = await restore(
      { ...engines, clickHouseUrl: config.SLUICE_CLICKHOUSE_URL },
      {
        source: await open(source, 'The source'),
        secretsKey: config.SLUICE_SECRETS_KEY,
        clickHouseOnly,
        acceptLoss,
        say,
      },
    )
    report(restored, clickHouseOnly)
  } finally {
    await close()
  }
} catch (error) {
  console.error(internalMessage(error))
  process.exitCode = 1
}
