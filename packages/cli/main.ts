import { readFileSync } from 'node:fs'
import process from 'node:process'
import { CommanderError } from 'commander'
import type { Context } from './context.ts'
import { exitCodes, Failure, messageOf } from './failure.ts'
import { openTerminal } from './output/terminal.ts'
import { createProgram } from './program.ts'

/** Commands whose work is not what they print. */
const storingCommands: readonly string[] = ['send', 'import']
/** The command that runs, once its arguments are read. */
let command = ''

const interruption = new AbortController()
const terminal = openTerminal(process.stdout, process.stderr)
const context: Context = { env: process.env, input: process.stdin, terminal, signal: interruption.signal }

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // A second signal does not wait for the command to end.
    if (interruption.signal.aborted) process.exit(exitCodes.interrupted)
    interruption.abort()
  })
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    // The reader of the pipe, `head` for example, has what it wants; what is to be stored still is.
    if (!storingCommands.includes(command)) process.exit(exitCodes.ok)
  })
}

process.exitCode = await run()
// A request that was given up, or standard input, may still be open; what was written goes out first.
process.stdout.write('', () => {
  process.stderr.write('', () => process.exit())
})

async function run(): Promise<number> {
  try {
    const program = createProgram(context, readVersion())
    program.hook('preAction', (_, action) => {
      command = action.name()
    })
    await program.parseAsync()
    return exitCodes.ok
  } catch (error) {
    terminal.status(null)
    return report(error)
  }
}

/** Writes why a command ended, unless it was written already, and returns the exit code. */
function report(error: unknown): number {
  // Commander has written its message, or its help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
  if (interruption.signal.aborted) return exitCodes.interrupted
  terminal.note(terminal.style('red', `sluice: ${messageOf(error)}`, 'notes'))
  if (error instanceof Failure) return error.exitCode
  if (process.env.SLUICE_DEBUG && error instanceof Error) terminal.note(error.stack ?? '')
  return exitCodes.failure
}

function readVersion(): string {
  const file: unknown = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'))
  return typeof file === 'object' && file !== null && 'version' in file ? String(file.version) : 'unknown'
}
