import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { errorCode } from '@sluice/runtime/errors'
import { waitUntil } from '@sluice/runtime/wait-until'

/**
 * Ports below the range of outgoing connections, which begins at 32,768 on Linux and 49,152 on macOS. One of our own
 * connections might take a port of that range between `findFreePort` and the engine's start.
 */
const ports = { first: 15_000, end: 32_000 } as const

/** A TCP port of 127.0.0.1 that is free at this moment. */
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
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => resolve(true))
  })
  if (free) await new Promise((resolve) => server.close(resolve))
  return free
}

/** The process id that a file holds; NaN when the file can't be read or holds none. */
export function readPid(file: string): number {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10)
  } catch {
    return Number.NaN
  }
}

/** True while there is a process `pid` (of any user). A zombie does not count. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
  return commandLine(pid) !== ''
}

/**
 * True while `pid` is a process whose command line contains `marker`, the path of our own folder: the system may have
 * given a recorded pid to another program since.
 */
export function hasCommandLine(pid: number, marker: string): boolean {
  return commandLine(pid).includes(marker)
}

/**
 * Ends a process that a killed predecessor left behind: sends `signal`, then SIGKILL after 3 s, and resolves when the
 * process has ended. Does nothing when `pid` is another program (see hasCommandLine) or no process. Throws when the
 * process does not end.
 */
export async function endOrphan(pid: number, marker: string, signal: NodeJS.Signals): Promise<boolean> {
  if (!hasCommandLine(pid, marker)) return false
  process.kill(pid, signal)
  const gone = (): boolean => !hasCommandLine(pid, marker)
  try {
    await waitUntil(gone, `end of process ${pid}`, 3_000)
  } catch {
    if (!gone()) process.kill(pid, 'SIGKILL')
    await waitUntil(gone, `end of process ${pid}`, 5_000)
  }
  return true
}

/** Arguments of a process, each followed by a blank; empty for a process that doesn't exist (or is a zombie). */
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
