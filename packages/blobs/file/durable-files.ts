import { type FileHandle, mkdir, open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '@sluice/runtime/errors'
import { undefinedIfMissing } from './files.ts'

/** Only this user may read the files and enter the folders. */
const fileMode = 0o600
const folderMode = 0o700
/** How often a folder may vanish while it is needed. */
const attemptsMax = 100

/** Runs a step of a file's life, e.g. with another error for its failure. */
type RunStep = <T>(step: () => Promise<T>) => Promise<T>

/**
 * Creates a file and hands it to `write`. The content is durable when the promise resolves, the file when its folder
 * is. `run` gets the steps besides `write`.
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
  } finally {
    await run(() => file.close())
  }
}

/** Appends a chunk as a whole: the system may take less at a time. */
export async function append(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length;) {
    written += (await file.write(chunk, written)).bytesWritten
  }
}

/** Gives a durable file its final name, in place of another one; the name is durable when the promise resolves. */
export async function renameDurably(from: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await createFolder(dirname(to))
      await rename(from, to)
      break
    } catch (error) {
      // The removal of the last file of a folder removes the folder too, perhaps at this moment.
      if (errorCode(error) !== 'ENOENT' || attempt === attemptsMax) throw error
    }
  }
  await undefinedIfMissing(syncFolder(dirname(to)))
}

/** Creates a folder with those above it, durably. */
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
