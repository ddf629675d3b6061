import { fstatSync, readFileSync, writeSync } from 'node:fs'
import process from 'node:process'
import { Writable } from 'node:stream'
import { CommanderError } from 'commander'
import { allowSlowConnections } from '@sluice/runtime/connection-attempts'
import type { Context } from './context.ts'
import { type ExitCode, exitCodes, Failure, messageOf } from './failure.ts'
import { safeText } from './output/safe-text.ts'
import { openTerminal, type OutputStream } from './output/terminal.ts'
import { createProgram } from './program.ts'

/** Commands whose purpose is not their output. */
const storingCommands: readonly string[] = ['send', 'import']
/**
 * Commands that continue when their output can't be written, because they store events or have to report that a new key
 * is lost.
 */
const lastingCommands: readonly string[] = [...storingCommands, 'create', 'rotate']
/** The command that runs, once its arguments are read. */
let command = ''
let isLeaving = false

allowSlowConnections()
const interruption = new AbortController()
const output = openOutput()
const terminal = openTerminal(output, process.stderr)
const context: Context = { env: process.env, input: process.stdin, terminal, signal: interruption.signal }

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // A second signal does not wait for the command to end.
    if (interruption.signal.aborted) process.exit(exitCodes.interrupted)
    interruption.abort()
  })
}
// When a terminal is closed, both its shell and the system may send one, so a second one is no request to end at once.
process.on('SIGHUP', () => {
  interruption.abort()
})
output.on('error', () => {
  if (!lastingCommands.includes(command)) leave(exitCodes.ok)
})
// The data and the exit code are of use without the notes.
process.stderr.on('error', () => undefined)

leave(await run())

async function run(): Promise<ExitCode> {
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

/** Ends the process, which fails if its output could not be written. */
function leave(code: ExitCode): void {
  if (isLeaving) return
  isLeaving = true
  // A request that was given up, or standard input, may still be open, so the process is ended. Pending output is
  // written first.
  output.write('', () => {
    if (terminal.problem !== undefined) terminal.note(terminal.style('red', `sluice: ${terminal.problem}`, 'notes'))
    process.stderr.write('', () => process.exit(code === exitCodes.ok ? codeOfOutput() : code))
  })
}

/** The exit code of a command that has done its work. It depends on whether the output was written. */
function codeOfOutput(): ExitCode {
  if (terminal.problem !== undefined) return exitCodes.failure
  // The reader of the pipe, such as `head`, may have read enough, so no message is written.
  return terminal.isUnread && !storingCommands.includes(command) ? exitCodes.unread : exitCodes.ok
}

/**
 * Standard output. For a file, process.stdout is not used, because it reports no error for a write that a full disk has
 * cut short.
 */
function openOutput(): OutputStream {
  if (!fstatSync(1).isFile()) return process.stdout
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      try {
        for (let at = 0; at < chunk.length; at += writeSync(1, chunk, at));
        done()
      } catch (error) {
        done(error instanceof Error ? error : new Error(messageOf(error)))
      }
    },
  })
}

/** Writes why a command ended, unless it was written already, and returns the exit code. */
function report(error: unknown): ExitCode {
  // Commander has written its message, or its help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
  if (interruption.signal.aborted) return exitCodes.interrupted
  // A message may quote a file, a name or a server.
  terminal.note(terminal.style('red', `sluice: ${safeText(messageOf(error))}`, 'notes'))
  if (error instanceof Failure) return error.exitCode
  if (process.env.SLUICE_DEBUG && error instanceof Error) terminal.note(error.stack ?? '')
  return exitCodes.failure
}

function readVersion(): string {
  const file: unknown = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'))
  return typeof file === 'object' && file !== null && 'version' in file ? String(file.version) : 'unknown'
}
