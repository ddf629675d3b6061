import { fork, type Serializable } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'

/** A child process of ours that ends itself when this process dies, however it dies: its IPC channel closes then. */
export interface TiedChild {
  readonly pid: number
  /** Resolves when it has ended, with how: `code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>
  send(message: Serializable): void
  onMessage(listener: (message: unknown) => void): void
  /** SIGKILL. */
  kill(): void
}

export interface ForkOptions {
  /** Also where the child's HOME is, so that no dot file of the user is read. */
  cwd: string
  /** File for standard error, made anew. */
  stderrFile: string
}

/**
 * Runs `file` (a TypeScript file of this package) with Node. The child has a session of its own: a terminal's Ctrl-C or
 * npm's copy of a signal reach this process, which then ends the child last.
 */
export function forkTied(file: string, args: readonly string[], { cwd, stderrFile }: ForkOptions): TiedChild {
  const stderr = openSync(stderrFile, 'w', 0o600)
  const child = fork(file, args, {
    cwd,
    // The environment holds our secrets and settings that engines would read; they get the bare minimum.
    env: {
      PATH: process.env.PATH,
      HOME: cwd,
      TZ: 'UTC',
      ...(process.env.TMPDIR && { TMPDIR: process.env.TMPDIR }),
    },
    execArgv: ['--disable-warning=ExperimentalWarning'],
    detached: true,
    stdio: ['ignore', stderr, stderr, 'ipc'],
  })
  closeSync(stderr)

  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve(signal ? `signal ${signal}` : `code ${code ?? 'unknown'}`)
    })
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(error.message) // it could not even be started
    })
  })

  return {
    pid: child.pid ?? -1,
    exited,
    send: (message) => {
      // A child that is gone answers with `exited`, not with an error here.
      if (child.connected) child.send(message, () => undefined)
    },
    onMessage: (listener) => {
      child.on('message', listener)
    },
    kill: () => {
      child.kill('SIGKILL')
    },
  }
}
