import { fileURLToPath } from 'node:url'
import { forkChild } from './child-process.ts'

export interface ProgramOptions {
  command: string
  args: string[]
  cwd: string
  /** The complete environment. */
  env: Record<string, string>
  /** User to run the program as, if another one; needs root. */
  uid?: number
  gid?: number
  /** Signal that the program gets when this process ends; SIGKILL follows 3 s later. */
  signalWhenOrphaned: NodeJS.Signals
}

export type WatchdogCommand = { run: ProgramOptions } | { signal: NodeJS.Signals }
export type WatchdogMessage = { pid: number } | { failed: string }

/** A program that ends with this process. */
export interface WatchedProgram {
  /** Process id of the program, not of its watchdog. */
  readonly pid: number
  /**
   * Resolves when the program has ended, with `code 0` for example. After the watchdog alone was killed the program may
   * still run (see endOrphan).
   */
  readonly exited: Promise<string>
  hasExited(): boolean
  signal(signal: NodeJS.Signals): void
}

const childFile = fileURLToPath(new URL('watchdog-child.ts', import.meta.url))

/**
 * Runs a program as the child of a watchdog process, which ends the program when this process ends, even at `kill -9`.
 * The program's output goes to `logFile`, overwritten. Throws when the program can't be started.
 */
export async function runWithWatchdog(program: ProgramOptions, logFile: string): Promise<WatchedProgram> {
  const watchdog = forkChild(childFile, [program.command], { cwd: program.cwd, stderrFile: logFile })
  let exited = false
  void watchdog.exited.then(() => {
    exited = true
  })
  const firstMessage = new Promise<WatchdogMessage>((resolve) => {
    watchdog.onMessage((message) => resolve(message as WatchdogMessage))
    void watchdog.exited.then((how) => {
      resolve({ failed: `its guardian ended with ${how}` })
    })
  })
  watchdog.send({ run: program } satisfies WatchdogCommand)

  const reply = await firstMessage
  if ('failed' in reply) {
    watchdog.kill()
    throw new Error(`${program.command}: ${reply.failed}`)
  }
  return {
    pid: reply.pid,
    exited: watchdog.exited,
    hasExited: () => exited,
    signal: (signal) => {
      watchdog.send({ signal })
    },
  }
}
