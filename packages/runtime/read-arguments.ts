import process from 'node:process'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { internalMessage } from './errors.ts'

/**
 * Parses the arguments of a command with Node's `parseArgs`, and returns the result of `interpret`, which throws an
 * Error for arguments that contradict each other. `--help` prints the usage and ends the process with 0. For wrong
 * arguments, throws an Error with the reason and the usage.
 */
export function readArguments<Options extends ParseArgsConfig, Result>(
  usage: string,
  options: Options,
  interpret: (parsed: ReturnType<typeof parseArgs<Options>>) => Result,
): Result {
  if (process.argv.slice(2).includes('--help')) {
    process.stdout.write(`${usage}\n`)
    process.exit(0)
  }
  try {
    return interpret(parseArgs(options))
  } catch (error) {
    // After its first sentence, Node explains how to give a positional argument that begins with a dash.
    const reason = internalMessage(error).replace(/\. To specify a positional argument [^]*/, '')
    throw new Error(`${reason}\n${usage}`, { cause: error })
  }
}
