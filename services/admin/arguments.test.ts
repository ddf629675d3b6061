import { describe, expect, test } from '@jest/globals'
import { type ProgramName, spawnProgram } from '../../tests/support/service-process.ts'

async function run(name: ProgramName, given: readonly string[]): Promise<{ code: unknown; output: string }> {
  const program = await spawnProgram(name, {}, { arguments: given })
  return { code: await program.exited, output: program.output() }
}

const serviceUsage = 'Sluice is set up by environment variables, for example SLUICE_PORT=9000'
const commands: [name: ProgramName, usage: string][] = [
  ['admin/migrate/main', 'npm run migrate [-- [--plan | --wait] [--accept-loss]]'],
  ['admin/reshard/main', 'npm run reshard -- --to <cluster> --database <new name>'],
  ['admin/backup/main', 'npm run backup -- <target>'],
  ['admin/restore/main', 'npm run restore -- <source>'],
  ['admin/replay-dead-letters/main', 'npm run replay-dead-letters [-- --list]'],
  ['standalone/admin-key', 'npm run admin-key'],
  ['standalone/main', `${serviceUsage} npm start;`],
  ['gateway/main', `${serviceUsage} npm run gateway;`],
]

describe.each(commands)('%s', (name, usage) => {
  test('refuses an argument that it does not know, before it reads the configuration', async () => {
    const { code, output } = await run(name, ['--unknown'])
    expect({ code, lines: output.split('\n').slice(0, 2) }).toStrictEqual({
      code: 1,
      lines: ["Unknown option '--unknown'", expect.stringContaining(usage)],
    })
  })

  test('prints its usage for --help and does nothing else', async () => {
    const { code, output } = await run(name, ['--help'])
    expect({ code, isUsage: output.startsWith(usage) }).toStrictEqual({ code: 0, isUsage: true })
  })
})

test.each<[ProgramName, string[], string]>([
  ['admin/migrate/main', ['--plan', '--wait'], 'give one of them'],
  ['admin/reshard/main', ['--to', 'two'], '--to and --database are needed.'],
  ['admin/reshard/main', ['--to', 'two', '--database', 'd', '--finish', '--cancel'], 'exclude each other'],
  ['admin/backup/main', [], 'One target is needed.'],
  ['admin/backup/main', ['file:a', 'file:b'], 'One target is needed.'],
  ['admin/backup/main', ['file:a', '--postgres-only', '--base', 'file:b'], 'exclude each other'],
  ['admin/restore/main', [], 'One source is needed.'],
])('%s %j is refused', async (name, given, reason) => {
  expect(await run(name, given)).toMatchObject({ code: 1, output: expect.stringContaining(reason) as unknown })
})
