import { createHash, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { threadId } from 'node:worker_threads'

/** A process that has not touched its files for this time (ms) has ended, or is suspended. */
export const deadAfterMs = 60_000

const pattern = /^sluice-([\da-f]{12})-([\da-f]{8})-(\d+)-(\d+)-([\da-f-]{36})\.spool$/
const host = shortHash(hostname(), 8)
/** The process id in the name of a file whose client was closed: no process has it. */
const nobody = 0

/** The files that clients in this process write to, including those of another bundled copy of this module. */
const ownFiles = processWideSet(Symbol.for('@sluice/node spool files'))

/** Identifies the events that a client may send: those of its site, environment and address. The key may be rotated. */
export function spoolScope({ url, site, key }: { url: string; site: string; key: string }): string {
  const [, environment = ''] = key.split('_')
  return shortHash(JSON.stringify([url.replace(/\/+$/, ''), site, environment]), 12)
}

/** A new name of a file that belongs to this process or, if `isReleased`, to none. */
export function newFileName(scope: string, isReleased = false): string {
  const owner = isReleased ? [nobody, 0] : [process.pid, threadId]
  const token = randomUUID()
  if (!isReleased) ownFiles.add(token)
  return `sluice-${[scope, host, ...owner, token].join('-')}.spool`
}

/** Call it when this process no longer writes to the file. */
export function forgetFileName(name: string): void {
  ownFiles.delete(pattern.exec(name)?.[5])
}

/** Whether a name is that of a spool file of this scope. */
export function isOfScope(name: string, scope: string): boolean {
  return pattern.exec(name)?.[1] === scope
}

/**
 * Whether a file, last touched `idleMs` ago, may be taken over: its process on this machine has ended, or the file was
 * not touched for a long time, e.g. because its process ran on another machine or in another container.
 */
export function isLeftBehind(name: string, idleMs: number): boolean {
  const [, , ofHost, pid, thread, token] = pattern.exec(name) ?? []
  if (ownFiles.has(token)) return false
  if (Number(pid) === nobody || idleMs > deadAfterMs) return true
  if (ofHost !== host) return false
  // An earlier process had the same id as this one, as in a restarted container.
  if (Number(pid) === process.pid) return Number(thread) === threadId
  return !isAlive(Number(pid))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process exists but belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function processWideSet(name: symbol): Set<unknown> {
  const found: unknown = Reflect.get(globalThis, name)
  if (found instanceof Set) return found
  const made = new Set<unknown>()
  Reflect.set(globalThis, name, made)
  return made
}

function shortHash(text: string, digits: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits)
}
