import { fileURLToPath } from 'node:url'
import { forkTied } from './tied-child.ts'

export interface Program {
  command: string
  args: string[]
  cwd: string
  /** All of its environment. */
  env: Record<string, string>
  /** Another user to run it as; needs root. */
  uid?: number
  gid?: number
  /** Sent to it when we die; SIGKILL follows 3 s later. */
  signalWhenOrphaned: NodeJS.Signals
}

export type GuardianOrder = { run: Program } | { signal: NodeJS.Signals }
export type GuardianMessage = { pid: number } | { failed: string }

export interface GuardedProgram {
  /** The program's own, not its guardian's. */
  readonly pid: number
  /** Resolves when it has ended, with how: `code 0`. When its guardian was killed the program may be left (see endOrphan). */
  readonly exited: Promise<string>
  hasExited(): boolean
  signal(signal: NodeJS.Signals): void
}

const childFile = fileURLToPath(new URL('guardian-child.ts', import.meta.url))

/**
 * Runs a program as the child of a small process of ours that ends it when this process dies, even at `kill -9`.
 * What it prints goes to `logFile`, made anew. Throws when it can't be started.
 */
export async function runGuarded(program: Program, logFile: string): Promise<GuardedProgram> {
  const guardian = forkTied(childFile, [program.command], { cwd: program.cwd, stderrFile: logFile })
  let exited = false
  void guardian.exited.then(() => {
    exited = true
  })
  const answer = new Promise<GuardianMessage>((resolve) => {
    guardian.onMessage((message) => {
      resolve(message as GuardianMessage)
    })
    void guardian.exited.then((how) => {
      resolve({ failed: `its guardian ended with ${how}` })
    })
  })
  guardian.send({ run: program } satisfies GuardianOrder)

  const started = await answer
  if ('failed' in started) {
    guardian.kill()
    throw new Error(`${program.command}: ${started.failed}`)
  }
  return {
    pid: started.pid,
    exited: guardian.exited,
    hasExited: () => exited,
    signal: (signal) => {
      guardian.send({ signal })
    },
  }
}
