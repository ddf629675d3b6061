// The first program of a container or a systemd unit. It replaces itself by a service or a command of package.json,
// with the flags of Node in the script of package.json. So the flags are defined in one place, no shell is needed, and
// the service has the same process id: as PID 1 it receives the SIGTERM itself.
//
//   node deploy/start.mjs gateway
import { existsSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const [name, ...rest] = process.argv.slice(2)
const commands = findCommands()
const command = name === undefined ? undefined : commands.get(name)
if (command === undefined) {
  process.stderr.write(
    `${name === undefined ? 'No service is named' : `There is no service ${JSON.stringify(name)}`}: ` +
      `give one of ${[...commands.keys()].join(', ')}.\n`,
  )
  process.exit(1)
}
// Relative paths in the configuration are relative to the folder of package.json, as with npm.
process.chdir(root)
process.execve(process.execPath, [process.execPath, ...command, ...rest])

/** The arguments of Node for each service and command whose program is installed here. */
function findCommands() {
  const { scripts } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))
  const found = new Map()
  for (const [script, text] of Object.entries(scripts)) {
    const [, words] = /&& exec node (.*)$/.exec(text) ?? []
    const program = words?.split(' ').at(-1)
    if (!program?.startsWith('services/')) continue
    // `npm run admin-key` also finds embedded engines; the operators' command of the same name needs none.
    const withoutEngines = `services/admin/${script}/main.ts`
    const file = [program, withoutEngines].find((path) => existsSync(resolve(root, path)))
    if (file === undefined) continue
    found.set(script === 'start' ? 'standalone' : script, [...words.split(' ').slice(0, -1), file])
  }
  return found
}
