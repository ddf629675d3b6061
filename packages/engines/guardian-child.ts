// A process between us and a program that knows nothing of our IPC (Postgres, Kafka): it ends the program when we die.
// Forked by guarded-program.ts; its arguments only name it in a list of processes.
import { spawn, type ChildProcess } from 'node:child_process'
import type { GuardianMessage, GuardianOrder } from './guarded-program.ts'
import { tieToParent } from './tie-to-parent.ts'

const killAfterMs = 3_000
let program: ChildProcess | undefined
let lastSignal: NodeJS.Signals = 'SIGKILL'

tieToParent(() => {
  if (!program) process.exit()
  program.kill(lastSignal)
  setTimeout(() => program?.kill('SIGKILL'), killAfterMs) // the program's exit ends this process before that
})

process.on('message', (order: GuardianOrder) => {
  if ('signal' in order) {
    program?.kill(order.signal)
    return
  }
  const { command, args, cwd, env, uid, gid } = order.run
  lastSignal = order.run.signalWhenOrphaned
  program = spawn(command, args, {
    cwd,
    env,
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  program.once('error', (error) => {
    tell({ failed: error.message }, 1)
  })
  program.once('exit', (code) => process.exit(code ?? 1))
  if (program.pid !== undefined) tell({ pid: program.pid })
})

function tell(message: GuardianMessage, exitCode?: number): void {
  process.send?.(message, () => {
    if (exitCode !== undefined) process.exit(exitCode)
  })
}
