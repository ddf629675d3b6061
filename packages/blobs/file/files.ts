import { type FileHandle, open, opendir, rmdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { errorCode, unavailable } from '@sluice/runtime/errors'
import type { ByteRange, StoredBlob } from '../blob-store.ts'
import { isName } from '../rules.ts'
import { toDiskError } from './disk-error.ts'

const readBytes = 128 * 1024

/** A file opened for reading; undefined when there is none. */
export async function openFileIfExists(path: string): Promise<FileHandle | undefined> {
  const file = await undefinedIfMissing(open(path, 'r'))
  if (file === undefined || (await file.stat()).isFile()) return file
  await file.close()
  return undefined
}

/** Bytes of a file; undefined when there is none. */
export async function fileSize(path: string): Promise<number | undefined> {
  const found = await undefinedIfMissing(stat(path))
  return found?.isFile() ? found.size : undefined
}

/** Streams a range of a file of `folder` and closes it at the end. Failures are AppErrors. */
export function streamFile(folder: string, file: FileHandle, { start, end }: ByteRange): Readable {
  let position = start
  return new Readable({
    highWaterMark: readBytes,
    read(size) {
      const length = Math.min(size, end - position + 1)
      if (length === 0) {
        this.push(null)
        return
      }
      file.read(Buffer.allocUnsafe(length), 0, length, position).then(
        ({ bytesRead, buffer }) => {
          position += bytesRead
          if (bytesRead > 0) this.push(buffer.subarray(0, bytesRead))
          else this.destroy(unavailable(`A file of ${folder} is shorter than it was`))
        },
        (error: unknown) => this.destroy(toDiskError(folder, error)),
      )
    },
    destroy(error, callback) {
      file.close().then(
        () => callback(error),
        (closeError: unknown) => callback(error ?? toDiskError(folder, closeError)),
      )
    },
  })
}

/** Removes a file below `root`, and the folders above it that become empty. */
export async function removeFile(path: string, root: string): Promise<void> {
  await undefinedIfMissing(unlink(path))
  for (let folder = dirname(path); folder !== root; folder = dirname(folder)) {
    try {
      await rmdir(folder)
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ENOENT') continue
      if (code === 'ENOTEMPTY' || code === 'EEXIST') return
      throw error
    }
  }
}

/** The files below `root` whose path is a valid name and begins with `prefix`. Other files and folders are skipped. */
export async function* listFiles(root: string, prefix: string, below = ''): AsyncGenerator<StoredBlob> {
  const folder = await undefinedIfMissing(opendir(join(root, below)))
  if (folder === undefined) return
  for await (const entry of folder) {
    const name = `${below}${entry.name}`
    if (!isName(name)) continue
    if (entry.isDirectory()) {
      if (prefix.startsWith(`${name}/`) || `${name}/`.startsWith(prefix)) yield* listFiles(root, prefix, `${name}/`)
    } else if (name.startsWith(prefix)) {
      const found = await undefinedIfMissing(stat(join(root, name)))
      if (found?.isFile()) yield { name, bytes: found.size, modifiedAt: Math.floor(found.mtimeMs) }
    }
  }
}

/** The result of a file system call; undefined when the file does not exist. */
export async function undefinedIfMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    const code = errorCode(error)
    // ENOTDIR: a part of the path is a file and not a folder.
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}
