import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** A secret is one line: a larger file is the wrong file. */
const secretFileBytesMax = 64 * 1024

/**
 * Reads the secret in a file, without the line ends after it. Throws an Error whose message continues the name of the
 * variable that named the file. The message contains neither the content nor the path, because somebody may have set
 * the variable to the secret itself.
 */
export function readSecretFile(path: string): string {
  const text = decode(readFile(path)).replace(/[\r\n]+$/, '')
  if (text === '') throw new Error('names an empty file: write the value into it')
  return text
}

function readFile(path: string): Buffer {
  let file: number
  try {
    // Without a writer, opening a pipe would wait for ever.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    // Without its cause, whose message holds the path.
    // eslint-disable-next-line preserve-caught-error
    throw new Error(adviceOn(code))
  }
  try {
    if (!fstatSync(file).isFile())
      throw new Error('does not name a regular file: give the path of the file with the value')
    const content = Buffer.alloc(secretFileBytesMax + 1)
    let bytes = 0
    for (let read = -1; read !== 0; bytes += read) read = readSync(file, content, bytes, content.length - bytes, null)
    if (bytes > secretFileBytesMax) {
      throw new Error(`names a file of more than ${secretFileBytesMax / 1024} KiB: give one that holds the value alone`)
    }
    return content.subarray(0, bytes)
  } finally {
    closeSync(file)
  }
}

function decode(content: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch (error) {
    throw new Error('names a file that is not UTF-8 text: write the value into it as text', { cause: error })
  }
}

function adviceOn(code: string): string {
  if (code === 'ENOENT') return 'names a file that does not exist: create it, or correct the path'
  if (code === 'EACCES') return 'names a file that this user may not read: change its owner or mode'
  return `names a file that cannot be read (${code}): give the path of the file with the value`
}
