import { writeFile } from 'node:fs/promises'
import { Failure, messageOf } from './failure.ts'

/**
 * Writes text to a file that the user named, in the place of what it holds, or at its end (`a`). Throws a Failure when
 * that is not possible.
 */
export async function writeOutput(file: string, text: string, flag: 'w' | 'a' = 'w'): Promise<void> {
  try {
    await writeFile(file, text, { flag })
  } catch (error) {
    throw new Failure(`${file} can't be written: ${messageOf(error)}`)
  }
}
