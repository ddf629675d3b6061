import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode } from './error-code.ts'

/**
 * Below the ports that systems give to outgoing connections (from 32,768 on Linux, 49,152 on macOS): one of those may be
 * taken, by a connection of ours, between the finding and the listening.
 */
const ports = { first: 15_000, end: 32_000 } as const

/** A TCP port of 127.0.0.1 that nobody listens on at this moment. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(ports.first, ports.end)
    if (await isFreePort(port)) return port
  }
}

/** True when this process could listen on 127.0.0.1:`port` now. */
export async function isFreePort(port: number): Promise<boolean> {
  const server = createServer()
  const free = await new Promise<boolean>((resolve) => {
    server.once('error', () => {
      resolve(false)
    })
    server.listen(port, '127.0.0.1', () => {
      resolve(true)
    })
  })
  if (free) await new Promise((resolve) => server.close(resolve))
  return free
}

/** Asks `condition` every 15 ms until it holds. Throws `Error(what + …)` after `timeoutMs`. */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs: number,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await sleep(15)
  }
}

/** True while there is a process `pid` (of any user). A zombie is none. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
  return commandLine(pid) !== ''
}

/**
 * True while `pid` is a process whose command line holds `marker`, which is the path of our own folder: a recorded pid
 * may have been given to a stranger since.
 */
export function isOurs(pid: number, marker: string): boolean {
  return commandLine(pid).includes(marker)
}

/**
 * Ends a process that a killed predecessor left behind, if `pid` is really it (see isOurs): sends `signal`, SIGKILL
 * after 3 s, and resolves when it is gone. Does nothing for a stranger or a dead pid. Throws when it doesn't go.
 */
export async function endOrphan(pid: number, marker: string, signal: NodeJS.Signals): Promise<boolean> {
  if (!isOurs(pid, marker)) return false
  process.kill(pid, signal)
  const gone = (): boolean => !isOurs(pid, marker)
  try {
    await waitUntil(gone, `end of process ${pid}`, 3_000)
  } catch {
    if (!gone()) process.kill(pid, 'SIGKILL')
    await waitUntil(gone, `end of process ${pid}`, 5_000)
  }
  return true
}

/** Arguments, each with a blank after it; empty for a process that doesn't exist (or is a zombie). */
function commandLine(pid: number): string {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
    const ps = execFileSync('ps', ['-o', 'command=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return `${ps.trim()} `
  } catch {
    return ''
  }
}
