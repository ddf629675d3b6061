// The watchdog of a program that has no IPC channel to us, such as Postgres: it ends the program when its parent ends.
// Forked by run-with-watchdog.ts; its argument only names the program in a list of processes.
import { type ChildProcess, spawn } from 'node:child_process'
import { exitWithParent } from './exit-with-parent.ts'
import type { WatchdogCommand, WatchdogMessage } from './run-with-watchdog.ts'

const killAfterMs = 3_000
let program: ChildProcess | undefined
let lastSignal: NodeJS.Signals = 'SIGKILL'

exitWithParent(() => {
  if (!program) process.exit()
  program.kill(lastSignal)
  setTimeout(() => program?.kill('SIGKILL'), killAfterMs) // the program's exit ends this process before the timer
})

process.on('message', (request: WatchdogCommand) => {
  if ('signal' in request) {
    program?.kill(request.signal)
    return
  }
  const { command, args, cwd, env, uid, gid } = request.run
  lastSignal = request.run.signalWhenOrphaned
  program = spawn(command, args, {
    cwd,
    env,
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  program.once('error', (error) => {
    sendToParent({ failed: error.message }, 1)
  })
  program.once('exit', (code) => process.exit(code ?? 1))
  if (program.pid !== undefined) sendToParent({ pid: program.pid })
})

function sendToParent(message: WatchdogMessage, exitCode?: number): void {
  process.send?.(message, () => {
    if (exitCode !== undefined) process.exit(exitCode)
  })
}
