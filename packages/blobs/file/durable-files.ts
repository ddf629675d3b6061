import { type FileHandle, mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '@sluice/runtime/errors'
import { undefinedIfMissing } from './files.ts'

/** Only this user may read the files and enter the folders. */
const fileMode = 0o600
const folderMode = 0o700
/** How often a concurrent removal may delete a folder while it is needed. */
const attemptsMax = 100

/** Runs one step, for example to replace the error of its failure. */
type RunStep = <T>(step: () => Promise<T>) => Promise<T>

/**
 * Creates a file and passes it to `write`. When the promise resolves, the content is durable; the file's name becomes
 * durable with its folder. A file that is not written completely is removed. All steps except `write` are run by `run`.
 */
export async function createFile<T>(
  path: string,
  write: (file: FileHandle) => Promise<T>,
  run: RunStep = (step) => step(),
): Promise<T> {
  const file = await run(() => open(path, 'wx', fileMode))
  try {
    const result = await write(file)
    await run(() => file.sync())
    return result
  } catch (error) {
    // On a full disk, others need its space. If it can't be removed now, it is removed with its folder.
    await unlink(path).catch(() => undefined)
    throw error
  } finally {
    await run(() => file.close())
  }
}

/** Appends a complete chunk. A single write may write only a part of it. */
export async function append(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length;) {
    written += (await file.write(chunk, written)).bytesWritten
  }
}

/**
 * Renames a durable file to its final name, which may replace another file. The name is durable when the promise
 * resolves.
 */
export async function renameDurably(from: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await createFolder(dirname(to))
      await rename(from, to)
      break
    } catch (error) {
      // The removal of a folder's last file also removes the folder, perhaps at this moment.
      if (errorCode(error) !== 'ENOENT' || attempt === attemptsMax) throw error
    }
  }
  await undefinedIfMissing(syncFolder(dirname(to)))
}

/** Creates a folder and its missing parents, durably. */
async function createFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: folderMode })
  if (first === undefined) return
  for (let created = folder; created.length >= first.length; created = dirname(created)) {
    await syncFolder(dirname(created))
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
