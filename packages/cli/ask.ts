import { createInterface } from 'node:readline/promises'
import type { Context } from './context.ts'
import { exitCodes, Failure, usageFailure } from './failure.ts'

const [interrupt, endOfInput, backspace, erase] = ['\u0003', '\u0004', '\b', '\u007f']

/**
 * Asks for confirmation before something that can't be undone. Throws a Failure without a terminal and for any answer
 * but yes.
 */
export async function confirm({ input, signal }: Context, question: string, isConfirmed: boolean): Promise<void> {
  if (isConfirmed) return
  if (input.isTTY !== true) throw usageFailure('There is no terminal on which to ask for confirmation: add --yes.')
  const reader = createInterface({ input, output: process.stderr })
  try {
    const answer = await reader.question(`${question} [y/N] `, { signal })
    if (!/^y(es)?$/i.test(answer.trim())) throw new Failure('Nothing was changed.')
  } catch (error) {
    // Ctrl-C rejects the question with an AbortError.
    if (error instanceof Failure) throw error
    throw new Failure('Nothing was changed.', exitCodes.interrupted)
  } finally {
    reader.close()
  }
}

/** Reads a line from the terminal and shows a star for each character. */
export async function askSecret({ input, terminal, signal }: Context, question: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let typed = ''
  const interrupted = (): Failure => new Failure('Nothing was saved.', exitCodes.interrupted)
  const read = (chunk: Buffer): void => {
    for (const character of chunk.toString('utf8')) {
      if (character === '\r' || character === '\n') resolve(typed)
      else if (character === interrupt || character === endOfInput) reject(interrupted())
      else if (character === backspace || character === erase) typed = typed.slice(0, -1)
      else typed += character
    }
    terminal.status(`${question} ${'*'.repeat(typed.length)}`)
  }
  const stop = (): void => reject(interrupted())
  signal.addEventListener('abort', stop)
  terminal.status(`${question} `)
  input.setRawMode?.(true)
  input.on('data', read)
  try {
    return (await promise).trim()
  } finally {
    input.setRawMode?.(false)
    input.off('data', read)
    input.pause()
    signal.removeEventListener('abort', stop)
    terminal.status(null)
  }
}
