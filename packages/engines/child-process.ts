import { fork, type Serializable } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'

/** A child process that ends itself when this process ends, even at `kill -9`: its IPC channel closes then. */
export interface ChildHandle {
  readonly pid: number
  /** Resolves when the process has ended, with `code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>
  send(message: Serializable): void
  onMessage(listener: (message: unknown) => void): void
  /** Sends SIGKILL. */
  kill(): void
}

export interface ForkOptions {
  /** Also the child's HOME, so that it reads no dot file of the user. */
  cwd: string
  /** File for standard error, overwritten. */
  stderrFile: string
  /**
   * Standard input is a terminal of the child's own where the system has one; otherwise, and by default, it is empty.
   */
  hasTerminal?: boolean
}

/**
 * Runs `file` (a TypeScript file of this package) with Node. The child has a session of its own, so that Ctrl-C in a
 * terminal or a signal that npm forwards reaches only this process, which ends the child last.
 */
export function forkChild(
  file: string,
  args: readonly string[],
  { cwd, stderrFile, hasTerminal = false }: ForkOptions,
): ChildHandle {
  const stdin = hasTerminal ? openTerminal() : 'ignore'
  const stderr = openSync(stderrFile, 'w', 0o600)
  const child = fork(file, args, {
    cwd,
    // The environment of this process holds secrets, and settings that engines would read: the child gets the minimum.
    env: {
      PATH: process.env.PATH,
      HOME: cwd,
      TZ: 'UTC',
      ...(process.env.TMPDIR && { TMPDIR: process.env.TMPDIR }),
    },
    execArgv: ['--disable-warning=ExperimentalWarning'],
    detached: true,
    stdio: [stdin, stderr, stderr, 'ipc'],
  })
  closeSync(stderr)
  if (stdin !== 'ignore') closeSync(stdin)

  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve(signal ? `signal ${signal}` : `code ${code ?? 'unknown'}`)
    })
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(error.message) // the process could not be started
    })
  })

  return {
    pid: child.pid ?? -1,
    exited,
    send: (message) => {
      // `exited` reports a child that has ended; sending to it is no error.
      if (child.connected) child.send(message, () => undefined)
    },
    onMessage: (listener) => child.on('message', listener),
    kill: () => child.kill('SIGKILL'),
  }
}

/** Opens a pseudo-terminal that nothing is attached to. */
function openTerminal(): number | 'ignore' {
  try {
    return openSync('/dev/ptmx', constants.O_RDWR | constants.O_NOCTTY)
  } catch {
    return 'ignore'
  }
}
