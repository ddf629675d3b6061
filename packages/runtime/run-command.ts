import process from 'node:process'
import { internalMessage } from './errors.ts'

/** Runs a command. A failure is printed to standard error, and the process then ends with 1. */
export async function runCommand(command: () => Promise<void>): Promise<void> {
  try {
    await command()
  } catch (error) {
    process.stderr.write(`${internalMessage(error)}\n`)
    process.exitCode = 1
  }
}
