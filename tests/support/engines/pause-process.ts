import { existsSync, readdirSync, readFileSync } from 'node:fs'

const timeoutMs = 10_000

/**
 * Stops a process with SIGSTOP and returns once none of its threads runs any more: the signal alone is only sent, and a
 * busy machine may let the threads answer a request after it. Where there is no /proc, returns when the signal is sent.
 * Throws when threads still run after 10 s, or when there is no such process.
 */
export function pauseProcess(pid: number): void {
  process.kill(pid, 'SIGSTOP')
  const threads = `/proc/${pid}/task`
  if (!existsSync(threads)) return
  const timer = new Int32Array(new SharedArrayBuffer(4))
  const limit = performance.now() + timeoutMs
  while (!readdirSync(threads).every((thread) => isStopped(`${threads}/${thread}/stat`))) {
    if (performance.now() > limit) throw new Error(`Process ${pid} still runs ${timeoutMs} ms after SIGSTOP`)
    Atomics.wait(timer, 0, 0, 1)
  }
}

/** By the state in a thread's `stat`, the letter behind its name in parentheses; true for a thread that has ended. */
function isStopped(statFile: string): boolean {
  try {
    const stat = readFileSync(statFile, 'latin1')
    return 'TtZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2))
  } catch {
    return true
  }
}
