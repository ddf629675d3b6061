// npm run backup -- <target>: docs/backup.md
import { parseArgs } from 'node:util'
import { loadConfig } from '@sluice/runtime/config'
import { internalMessage } from '@sluice/runtime/errors'
import { backUp, renewPostgres } from './backup.ts'
import { variables } from './config.ts'
import { openEngines } from './open-engines.ts'

const usage = `npm run backup -- <target> [--base <earlier target>] [--disk backups]
npm run backup -- <target> --postgres-only   (renews the dump of Postgres in that backup)
A target is file:<folder> or s3://bucket/prefix?region=eu-central-1.`

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        base: { type: 'string' },
        disk: { type: 'string', default: 'backups' },
        'postgres-only': { type: 'boolean', default: false },
      },
    })
    const [target, ...others] = positionals
    if (target === undefined || others.length > 0) throw new Error('One target is needed.')
    if (values['postgres-only'] && values.base !== undefined) {
      throw new Error('--base and --postgres-only exclude each other.')
    }
    return { target, ...values }
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${usage}`, { cause: error })
  }
}

try {
  const { target, base, disk, 'postgres-only': postgresOnly } = readArguments()
  const config = loadConfig(variables, process.env)
  const { engines, open, close } = await openEngines(config, process.env.PATH)
  try {
    const opened = await open(target, 'The target')
    if (postgresOnly) {
      await renewPostgres(engines, { target: opened })
      console.log(`The dump of Postgres in ${target} is renewed.`)
    } else {
      const { backupId } = await backUp(engines, {
        target: opened,
        base: base === undefined ? undefined : await open(base, '--base'),
        disk,
        secretsKey: config.SLUICE_SECRETS_KEY,
        say: (line) => {
          console.log(line)
        },
      })
      console.log(`${backupId} is complete in ${target}. Keep SLUICE_SECRETS_KEY elsewhere: it is not in the backup.`)
    }
  } finally {
    await close()
  }
} catch (error) {
  console.error(internalMessage(error))
  process.exitCode = 1
}
