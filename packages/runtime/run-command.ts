import process from 'node:process'
import { allowSlowConnections } from './connection-attempts.ts'
import { settledOrAfter } from './deadline.ts'
import { internalMessage } from './errors.ts'

/** How long the reader of a pipe may take for what a failed command has printed. */
const writeTimeoutMs = 10_000

/**
 * Runs a command. A failure is printed to standard error, and the process then ends with 1, also if the command has left
 * work running: after the lock of migrations was lost, for example, its work must not go on. It does so for up to 10 s
 * only where the reader of a pipe is slow.
 */
export async function runCommand(command: () => Promise<void>): Promise<void> {
  allowSlowConnections()
  try {
    await command()
  } catch (error) {
    process.stderr.write(`${internalMessage(error)}\n`)
    process.exitCode = 1
    // The exit would cut off what a slow reader of a pipe has not taken yet.
    const written = Promise.all(
      [process.stdout, process.stderr].map((output) => new Promise((done) => output.write('', done))),
    )
    await settledOrAfter(written, writeTimeoutMs)
    process.exit()
  }
}
