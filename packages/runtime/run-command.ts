import process from 'node:process'
import { internalMessage } from './errors.ts'

/**
 * Runs a command. A failure is printed to standard error, and the process then ends with 1, also if the command has left
 * work running: after the lock of migrations was lost, for example, its work must not go on.
 */
export async function runCommand(command: () => Promise<void>): Promise<void> {
  try {
    await command()
  } catch (error) {
    process.stderr.write(`${internalMessage(error)}\n`)
    process.exit(1)
  }
}
