import {
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { readdir, readFile, rename, stat, utimes } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { makeFolder } from '@sluice/runtime/make-folder'
import type { Report } from './error-reporter.ts'
import type { QueuedEvent } from './new-event.ts'
import { decodeLines, encodeLine } from './spool-lines.ts'
import { deadAfterMs, forgetFileName, isLeftBehind, isOfScope, newFileName } from './spool-names.ts'

/** Size after which a new file begins: only whole files are deleted. */
const fileBytesMax = 1024 * 1024
/** How often files are touched, to show other processes that this one is alive; ms. */
const touchEveryMs = deadAfterMs / 6
/** Pause after a failed write, in ms: the disk may be full. */
const pauseAfterFailureMs = 1_000
/** Time after a write at which fdatasync begins, in ms. */
const syncAfterMs = 1_000

/** A file with events, some of which Sluice has not answered for. */
export interface SpoolFile {
  path: string
  /** Events in it that Sluice has not answered for. */
  pending: number
  bytes: number
}

/** A file that another process has left in the folder, and its events. */
export interface Orphan {
  file: SpoolFile
  events: readonly QueuedEvent[]
}

/**
 * Files that keep events until Sluice has stored them. `append` writes to the operating system before it returns; the
 * data is on the disk within about a second. So the end of the process loses nothing, and a power cut only the last
 * second.
 */
export interface Spool {
  /** Writes an event; undefined when the write failed, which was reported, or when the last failure is too recent. */
  append(event: QueuedEvent): SpoolFile | undefined
  /** Writes the event with its corrected time to its file. Returns false when the write fails. */
  replace(file: SpoolFile, event: QueuedEvent, replaces: number): boolean
  /** Call it when Sluice has answered for an event of the file. */
  done(file: SpoolFile): void
  /** Whether a write has failed and the pause after it is over. */
  canRetry(): boolean
  /**
   * Takes over a file of a process that has ended; undefined when there is none. Rejects when the folder can't be read.
   */
  takeOrphan(): Promise<Orphan | undefined>
  /** Stops writing and releases the files: the next process can take them over at once. */
  close(): void
}

export interface SpoolParts {
  folder: string
  /** The part of a file's name that stands for the site, environment and address of this client. */
  scope: string
  bytesMax: number
  report: Report
  /** Called when another process has taken over the file: its events need another file. */
  onTaken: (file: SpoolFile) => void
}

/** Throws when the folder can't be created or is not writable. */
export function openSpool({ folder, scope, bytesMax, report, onTaken }: SpoolParts): Spool {
  const files = new Set<SpoolFile>()
  let active: { file: SpoolFile; fd: number } | undefined
  let isTorn = false
  let failedAt = -Infinity
  let hasFailed = false
  /** Size of the files of other processes at the last look into the folder. */
  let otherBytes = 0
  let syncing: NodeJS.Timeout | undefined
  checkWritable()
  const touching = setInterval(() => tidy(touch), touchEveryMs).unref()

  function checkWritable(): void {
    const { file, fd } = create()
    closeSync(fd)
    remove(file)
  }

  function create(): { file: SpoolFile; fd: number } {
    // Again, if it was removed.
    makeFolder(folder)
    const path = join(folder, newFileName(scope))
    const fd = openSync(path, 'ax', 0o600)
    const file = { path, pending: 0, bytes: 0 }
    files.add(file)
    return { file, fd }
  }

  function remove(file: SpoolFile): void {
    files.delete(file)
    forgetFileName(basename(file.path))
    const size = sizeOf(file)
    // The process that owned the file has not ended, and has written more events.
    if (size && size !== file.bytes) release(file)
    else rmSync(file.path, { force: true })
  }

  /** Events that a failure leaves in the spool are sent once more by the next process, and stored once. */
  function tidy(work: () => void): void {
    try {
      work()
    } catch (error) {
      report('spool_failed', String(error))
    }
  }

  /** Renames the file so that no process owns it. If that fails, it is taken over once this process has ended. */
  function release({ path }: SpoolFile): void {
    forgetFileName(basename(path))
    try {
      renameSync(path, join(folder, newFileName(scope, true)))
    } catch {
      return
    }
  }

  function write(line: string): SpoolFile {
    // After a suspension, or when two containers have the same host name, a process may find its file taken over.
    if (active && sizeOf(active.file) === undefined) touch()
    if (active && active.file.bytes >= fileBytesMax) endActive(syncAndClose)
    // After a failed write the file may end with a partial line: begin on a new line.
    const bytes = Buffer.from(isTorn ? `\n${line}` : line)
    let used = otherBytes + bytes.length
    for (const file of files) used += file.bytes
    if (used > bytesMax) throw new Error(`the files have reached the ${bytesMax} bytes of spoolBytesMax`)
    active ??= create()
    const { file, fd } = active
    isTorn = true
    const written = writeSync(fd, bytes)
    file.bytes += written
    if (written < bytes.length) throw new Error('the disk took a part of a write')
    isTorn = false
    file.pending++
    syncing ??= setTimeout(sync, syncAfterMs).unref()
    return file
  }

  function sync(): void {
    syncing = undefined
    // If fdatasync fails, the next write fails as well and is reported.
    if (active) fdatasync(active.fd, () => undefined)
  }

  /** Ends writing to the active file. `close` closes its descriptor. */
  function endActive(close: (fd: number) => void): void {
    if (!active) return
    const { file, fd } = active
    active = undefined
    isTorn = false
    close(fd)
    if (file.pending === 0) remove(file)
  }

  function touch(): void {
    for (const file of files) {
      try {
        const now = new Date()
        utimesSync(file.path, now, now)
      } catch {
        if (sizeOf(file) !== undefined) continue
        files.delete(file)
        forgetFileName(basename(file.path))
        if (active?.file === file) endActive(closeSync)
        onTaken(file)
      }
    }
  }

  async function leftBehind(): Promise<string[]> {
    const own = new Set([...files].map(({ path }) => basename(path)))
    const found: string[] = []
    otherBytes = 0
    for (const name of await readdir(folder)) {
      if (!isOfScope(name, scope) || own.has(name)) continue
      const about = await stat(join(folder, name)).catch(() => undefined)
      if (!about) continue
      otherBytes += about.size
      if (isLeftBehind(name, Date.now() - about.mtimeMs)) found.push(name)
    }
    return found
  }

  /** Takes over the file by renaming it: only one process succeeds. */
  async function takeOver(name: string): Promise<SpoolFile | undefined> {
    const newName = newFileName(scope)
    const path = join(folder, newName)
    try {
      await rename(join(folder, name), path)
      await utimes(path, new Date(), new Date())
    } catch {
      forgetFileName(newName)
      return undefined
    }
    const file = { path, pending: 0, bytes: 0 }
    files.add(file)
    return file
  }

  return {
    append: (event) => {
      if (performance.now() - failedAt < pauseAfterFailureMs) return undefined
      try {
        const file = write(encodeLine(event))
        hasFailed = false
        return file
      } catch (error) {
        failedAt = performance.now()
        if (!hasFailed) report('spool_failed', `Events are in memory alone, the spool failed: ${String(error)}`)
        hasFailed = true
        return undefined
      }
    },
    replace: (file, event, replaces) => {
      try {
        // Without O_CREAT: a file that another process has taken over must not be created again.
        const fd = openSync(file.path, constants.O_WRONLY | constants.O_APPEND)
        try {
          const bytes = Buffer.from(`\n${encodeLine(event, replaces)}`)
          const written = writeSync(fd, bytes)
          file.bytes += written
          const isWhole = written === bytes.length
          if (active?.file === file) isTorn = !isWhole
          return isWhole
        } finally {
          closeSync(fd)
        }
      } catch {
        return false
      }
    },
    done: (file) => {
      file.pending--
      if (file.pending > 0 || !files.has(file)) return
      tidy(() => {
        if (active?.file !== file) remove(file)
        // The file of this descriptor may belong to another process, which would not see that it has been written to.
        else if (sizeOf(file) !== undefined) {
          ftruncateSync(active.fd, 0)
          file.bytes = 0
        }
      })
    },
    canRetry: () => hasFailed && performance.now() - failedAt >= pauseAfterFailureMs,
    takeOrphan: async () => {
      for (const name of await leftBehind()) {
        const file = await takeOver(name)
        if (!file) continue
        let content
        try {
          content = await readFile(file.path)
        } catch (error) {
          report('spool_failed', String(error))
          // Another process, or this one, takes it later.
          files.delete(file)
          release(file)
          continue
        }
        const { events, damaged } = decodeLines(String(content))
        if (damaged > 0)
          report('spool_corrupt', `${damaged} lines of a spool file could not be read`, { count: damaged })
        Object.assign(file, { pending: events.length, bytes: content.length })
        if (events.length > 0) return { file, events }
        remove(file)
      }
      return undefined
    },
    close: () => {
      clearInterval(touching)
      clearTimeout(syncing)
      tidy(() => {
        endActive((fd) => {
          fdatasyncSync(fd)
          closeSync(fd)
        })
      })
      for (const file of files) release(file)
      files.clear()
    },
  }
}

/** The size of a file in bytes; undefined without the file. */
function sizeOf({ path }: SpoolFile): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

/** Asynchronous, so that the call of `track` that has filled the file does not wait. */
function syncAndClose(fd: number): void {
  fdatasync(fd, () => closeSync(fd))
}
