// npm run backup -- <target>: docs/backup.md
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { backUp, renewPostgresDump } from './backup.ts'
import { secretsKeysOf, variables } from './config.ts'
import { openEngines } from './open-engines.ts'

const usage = `npm run backup -- <target> [--base <earlier target>] [--disk backups]
npm run backup -- <target> --postgres-only
A target is file:<folder> or s3://bucket/prefix?region=eu-central-1.
  --base <earlier target>  copies only what has changed since that backup, which a restore then needs, too
  --disk <name>            disk of ClickHouse to which a backup in a folder is written (default: backups)
  --postgres-only          renews the dump of Postgres in the backup of that target`

const options = {
  base: { type: 'string' },
  disk: { type: 'string', default: 'backups' },
  'postgres-only': { type: 'boolean', default: false },
} as const

await runCommand(async () => {
  const { target, base, disk, postgresOnly } = readArguments(
    usage,
    { allowPositionals: true, options },
    ({ positionals: [first, ...others], values: { base, disk, 'postgres-only': postgresOnly } }) => {
      if (first === undefined || others.length > 0) throw new Error('One target is needed.')
      if (postgresOnly && base !== undefined) throw new Error('--base and --postgres-only exclude each other.')
      return { target: first, base, disk, postgresOnly }
    },
  )
  const config = loadCommandConfig(variables, process.env, console.error)
  const { engines, open, close } = await openEngines(config, { searchPath: process.env.PATH, blobsMustExist: true })
  try {
    const opened = await open(target, 'The target', { mustExist: postgresOnly })
    if (postgresOnly) {
      const isNewest = await renewPostgresDump(engines, { target: opened, ...secretsKeysOf(config) })
      console.log(
        isNewest
          ? `Renewed the dump of Postgres in ${target}.`
          : `The backup in ${target} already has a newer dump of Postgres, from another run of this command or from a machine whose clock was ahead. That dump was kept.`,
      )
    } else {
      const { backupId } = await backUp(engines, {
        target: opened,
        base: base === undefined ? undefined : await open(base, '--base', { mustExist: true }),
        disk,
        ...secretsKeysOf(config),
        say: (line) => console.log(line),
      })
      console.log(`${backupId} is complete in ${target}. Keep SLUICE_SECRETS_KEY elsewhere: it is not in the backup.`)
    }
  } finally {
    await close()
  }
})
