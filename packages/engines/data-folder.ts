import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { internalMessage } from '@sluice/runtime/errors'
import { makeFolder } from '@sluice/runtime/make-folder'
import { FatalError } from '@sluice/runtime/supervisor'

/** The lock on an engine's folder. */
export interface DataFolderLock {
  /** Releases the folder. Idempotent. The operating system does the same when the process ends, however it ends. */
  release(): void
}

const ownerFile = '.lock-pid'

/**
 * Creates `dir` (mode 0700) and locks it for this process: two processes would destroy an engine's data.
 * The lock is SQLite's exclusive lock on `<dir>/.lock` – the one file lock that comes with Node – so it ends with the
 * process even at `kill -9`, and a left-over file means nothing.
 *
 * `what` names the folder's engine in messages, e.g. `ClickHouse`. Throws a FatalError that names the process that has
 * locked the folder, be it another one or this one, and a FatalError for a folder that can't be used or has other files
 * in it.
 */
export function lockDataFolder(dir: string, what: string): DataFolderLock {
  const folder = resolve(dir)
  try {
    return lockFolder(folder, what)
  } catch (error) {
    if (error instanceof FatalError) throw error
    throw new FatalError(
      `${what} folder ${folder} can't be used (${internalMessage(error)}): let this user write it, or set SLUICE_DATA_DIR to another folder`,
      { cause: error },
    )
  }
}

function lockFolder(folder: string, what: string): DataFolderLock {
  throwIfForeign(folder, what)
  makeFolder(folder)
  chmodSync(folder, 0o700)
  const database = new DatabaseSync(join(folder, '.lock'), { timeout: 0 })
  try {
    // A journal in memory: no second file that a crash would leave behind.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (!isBusy(error)) throw error
    const owner = readOwner(folder)
    throw new FatalError(
      `${what} folder ${folder} is in use by ${owner === String(process.pid) ? 'this' : 'another'} process (pid ${owner}): ` +
        'stop it, or set SLUICE_DATA_DIR or the engine’s SLUICE_…_URL to another folder',
      { cause: error },
    )
  }
  writeFileSync(join(folder, ownerFile), `${process.pid}\n`, { mode: 0o600 })

  return {
    release: () => {
      if (!database.isOpen) return
      rmSync(join(folder, ownerFile), { force: true })
      database.close()
    },
  }
}

/**
 * Runs `start` with `dir` locked, and gives it the absolute path. A start that fails releases the lock; the engine's
 * own stop must call `release`. Throws as `lockDataFolder` and `start` do.
 */
export async function startInLockedFolder<Engine>(
  dir: string,
  what: string,
  start: (folder: string, release: () => void) => Promise<Engine>,
): Promise<Engine> {
  const lock = lockDataFolder(dir, what)
  const release = (): void => lock.release()
  try {
    return await start(resolve(dir), release)
  } catch (error) {
    release()
    throw error
  }
}

/** Throws for a folder with files but without our lock file: its permissions and its content stay as they are. */
function throwIfForeign(folder: string, what: string): void {
  if (!existsSync(folder)) return
  const content = readdirSync(folder)
  if (content.length > 0 && !content.includes('.lock')) {
    throw new FatalError(`${what} folder ${folder} holds other files: name an empty or a new one`)
  }
}

/** SQLITE_BUSY (5) and its extended codes, which keep 5 in their lowest byte. */
function isBusy(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' && (code & 0xff) === 5
}

function readOwner(folder: string): string {
  try {
    return readFileSync(join(folder, ownerFile), 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown' // the other process has locked the folder and not written the file yet
  }
}
