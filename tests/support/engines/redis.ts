// For tests and benchmarks: no service starts a Redis of its own.
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startInLockedFolder } from '@sluice/engines/data-folder'
import { endOrphan, readPid } from '@sluice/engines/processes'
import { runWithWatchdog, type WatchedProgram } from '@sluice/engines/run-with-watchdog'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../free-port.ts'
import { pauseProcess } from './pause-process.ts'
import { redisAnswers } from './redis-probe.ts'

export interface LocalRedis {
  /** `redis://127.0.0.1:<port>`, without the password that `settings` may ask for. */
  readonly url: string
  readonly port: number
  /** The process id of the present server; another one after a restart. */
  readonly pid: number
  /** Shuts the server down for good and releases the folder; resolves when it has ended. */
  stop(): Promise<void>
  /** Sends SIGKILL; resolves when the server has ended. Its data is lost, unless `settings` make it persistent. */
  kill(): Promise<void>
  /** Freezes it: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /** Starts the server again on the same port; it may be running or killed. Resolves when it answers. */
  restart(): Promise<void>
}

export interface RedisOptions {
  dir: string
  /** A free port is taken when it isn't given. */
  port?: number
  /** Further lines of redis.conf: `{ requirepass: 'secret' }`. */
  settings?: Readonly<Record<string, string>>
  /** Starts a Sentinel; `settings` say what it monitors: `{ 'sentinel monitor main': '127.0.0.1 6379 1' }`. */
  sentinel?: boolean
}

/** A program on the path; Valkey installs one of this name too. */
const command = 'redis-server'
const startTimeoutMs = 60_000
const stopTimeoutMs = 3_000

/** One line on what this machine lacks to run a Redis and how to get it; undefined when it lacks nothing. */
export function redisMissing(): string | undefined {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' })
    return undefined
  } catch {
    return `Redis needs ${command}, there is none: apt-get install redis-server (macOS: brew install redis)`
  }
}

/**
 * Starts Redis on 127.0.0.1; it lives no longer than this process and keeps nothing on disk. Takes 0.1 s and 5 MB.
 * Locks `dir`.
 *
 * Throws when the folder is in use, when there is no redis-server (see redisMissing), or with Redis's own message.
 */
export function startRedis({
  dir,
  port: askedPort,
  settings = {},
  sentinel = false,
}: RedisOptions): Promise<LocalRedis> {
  return startInLockedFolder(dir, 'Redis', async (folder, release) => {
    const port = askedPort ?? (await findFreePort())
    writeFileSync(configFile(folder), renderConfig(folder, port, settings))
    await endOrphan(readPid(pidFile(folder)), configFile(folder), 'SIGKILL')

    const args = [configFile(folder), ...(sentinel ? ['--sentinel'] : [])]
    let server = await startServer(folder, port, args)
    const stopServer = async (): Promise<void> => {
      server.signal('SIGCONT')
      server.signal('SIGTERM')
      const timer = setTimeout(() => server.signal('SIGKILL'), stopTimeoutMs)
      await server.exited
      clearTimeout(timer)
    }
    return {
      url: `redis://127.0.0.1:${port}`,
      port,
      get pid() {
        return server.pid
      },
      stop: async () => {
        await stopServer()
        rmSync(pidFile(folder), { force: true })
        release()
      },
      kill: async () => {
        server.signal('SIGKILL')
        await server.exited
      },
      pause: () => pauseProcess(server.pid),
      resume: () => process.kill(server.pid, 'SIGCONT'),
      restart: async () => {
        await stopServer()
        server = await startServer(folder, port, args)
      },
    }
  })
}

async function startServer(folder: string, port: number, args: string[]): Promise<WatchedProgram> {
  const logFile = join(folder, 'redis.log')
  const server = await runWithWatchdog(
    {
      command,
      args,
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: folder },
      signalWhenOrphaned: 'SIGKILL',
    },
    logFile,
  )
  writeFileSync(pidFile(folder), `${server.pid}\n`)
  try {
    const ready = async (): Promise<boolean> => server.hasExited() || (await redisAnswers('127.0.0.1', port))
    await waitUntil(ready, 'Redis answers', startTimeoutMs)
    if (server.hasExited()) throw new Error(`Redis did not start:\n${readFileSync(logFile, 'utf8').trim()}`)
    return server
  } catch (error) {
    server.signal('SIGKILL')
    await server.exited
    throw error
  }
}

/** The process title contains the path of the configuration, by which endOrphan recognises the process. */
function renderConfig(folder: string, port: number, settings: Readonly<Record<string, string>>): string {
  const lines = {
    bind: '127.0.0.1',
    port: String(port),
    dir: folder,
    save: '""',
    appendonly: 'no',
    'set-proc-title': 'no',
    ...settings,
  }
  return Object.entries(lines)
    .map(([name, value]) => `${name} ${value}\n`)
    .join('')
}

function configFile(folder: string): string {
  return join(folder, 'redis.conf')
}

function pidFile(folder: string): string {
  return join(folder, 'redis.pid')
}
