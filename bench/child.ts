import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A server of this folder in a process of its own. */
export interface Child {
  url: string
  /** Resident memory in MiB. */
  rssMib(): Promise<number>
  stop(): Promise<void>
}

/**
 * Forks `bench/<file>`; resolves when it has sent `{port}`. Its log is dropped, which is as fast as a fast collector.
 */
export async function startChild(
  file: string,
  environment: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
): Promise<Child> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), {
    env: { PATH: process.env.PATH, ...environment },
    execArgv: ['--disable-warning=ExperimentalWarning', ...flags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const next = <T>(): Promise<T> => new Promise((resolve) => child.once('message', (message) => resolve(message as T)))
  const { port } = await Promise.race([
    next<{ port: number }>(),
    exited.then(() => Promise.reject(new Error(`${file} ended before it listened`))),
  ])
  return {
    url: `http://127.0.0.1:${port}`,
    rssMib: async () => {
      const answer = next<{ rss: number }>()
      child.send('rss')
      return Math.round((await answer).rss / 2 ** 20)
    },
    stop: () => {
      child.kill('SIGTERM')
      return exited
    },
  }
}

/** Called in the child process: reports the port to the parent process and its memory on request. */
export function announce(port: number): void {
  process.on('message', (message) => {
    if (message === 'rss') process.send?.({ rss: process.memoryUsage.rss() })
  })
  // The child ends with its parent process.
  process.on('disconnect', () => process.exit(1))
  process.send?.({ port })
}
