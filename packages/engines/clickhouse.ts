import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Logger } from '@sluice/runtime/logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { forkChild } from './child-process.ts'
import { type ClickHouseUser, renderConfig, renderUsers } from './clickhouse-config.ts'
import { loadOrCreateCredentials } from './credentials.ts'
import { startInLockedFolder } from './data-folder.ts'
import { endOrphan, findFreePort, isFreePort, readPid } from './processes.ts'
import { type EngineProcess, type RestartedEngine, restartOnExit } from './restart-on-exit.ts'

/** A ClickHouse server of this process. */
export interface EmbeddedClickHouse extends RestartedEngine {
  /** `http://sluice:<password>@127.0.0.1:<port>/sluice`. The database need not exist yet; the user may create it. */
  readonly url: string
  /** The same for `sluice_reader`, a user that may only read and set limits. */
  readonly readerUrl: string
}

export interface EngineOptions {
  /** Folder of this engine alone; created when missing. */
  dir: string
  log?: Pick<Logger, 'warn' | 'error'>
}

export interface ClickHouseOptions extends EngineOptions {
  /**
   * Folder of a disk `backups`, to which the user `sluice` may then make backups, and to S3; by default there is none.
   */
  backupsDir?: string
}

const childFile = fileURLToPath(new URL('clickhouse-child.ts', import.meta.url))
/** Starting takes 0.3 s; loading very many parts after a crash takes longer. */
const startTimeoutMs = 60_000
const stopFlushMs = 2_000

/**
 * Starts a real ClickHouse server from the npm package `chdb` in a child process, on a free port of 127.0.0.1, and
 * starts it again on the same port whenever it ends. Locks `dir`. Resolves when the server answers queries.
 *
 * Throws when the folder is in use, when the platform has no such library (Linux x64 with glibc does), or with
 * ClickHouse's own message when the server could not start.
 */
export async function startClickHouse({ dir, log, backupsDir }: ClickHouseOptions): Promise<EmbeddedClickHouse> {
  assertPlatform()
  return startInLockedFolder(dir, 'ClickHouse', async (folder, release) => {
    const passwords = loadOrCreateCredentials<ClickHouseUser>(folder, ['sluice', 'sluice_reader'])
    writeFileSync(join(folder, 'users.xml'), renderUsers(passwords, { mayBackUp: backupsDir !== undefined }), {
      mode: 0o600,
    })
    const port = await findFreePort()
    const urlFor = (user: ClickHouseUser): string => `http://${user}:${passwords[user]}@127.0.0.1:${port}/sluice`
    const url = urlFor('sluice')

    const engine = await restartOnExit(
      'ClickHouse',
      () => startProcess({ folder, port, url, backupsDir: backupsDir === undefined ? undefined : resolve(backupsDir) }),
      log,
    )
    return {
      url,
      readerUrl: urlFor('sluice_reader'),
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

/** With a terminal, a child whose statement fails prints the error and waits for further input. */
function failedStatement(stderrFile: string): string | undefined {
  return /^Received exception:\s+(.+)$/m.exec(readFileSync(stderrFile, 'utf8'))?.[1]
}

async function startProcess({
  folder,
  port,
  url,
  backupsDir,
}: {
  folder: string
  port: number
  url: string
  backupsDir: string | undefined
}): Promise<EngineProcess> {
  const pidFile = join(folder, 'server.pid')
  await endOrphan(readPid(pidFile), `clickhouse-child.ts ${folder} `, 'SIGKILL')
  if (!(await isFreePort(port))) throw new Error(`port ${port} of 127.0.0.1, which ClickHouse had, was taken`)
  const config = {
    dataDir: join(folder, 'data'),
    logFile: join(folder, 'clickhouse.log'),
    usersFile: join(folder, 'users.xml'),
    httpPort: port,
    backupsDir,
  }
  writeFileSync(join(folder, 'config.xml'), renderConfig(config), { mode: 0o600 })

  const stderrFile = join(folder, 'stderr.log')
  const child = forkChild(childFile, [folder], { cwd: folder, stderrFile, hasTerminal: true })
  writeFileSync(pidFile, `${child.pid}\n`)
  let failure: string | undefined
  let ended = false
  const hasEnded = (): boolean => ended
  child.onMessage((message) => {
    failure = (message as { failed: string }).failed
  })
  void child.exited.then((how) => {
    failure ??= how
    ended = true
  })

  try {
    const hasFailed = (): boolean => {
      failure ??= failedStatement(stderrFile)
      return failure !== undefined
    }
    await waitUntil(async () => hasFailed() || (await acceptsQueries(url)), 'ClickHouse answers', startTimeoutMs)
    if (hasFailed()) throw new Error(`ClickHouse did not start: ${failure ?? ''} (see ${folder}/*.log)`)
  } catch (error) {
    child.kill()
    await child.exited
    throw error
  }

  return {
    pid: child.pid,
    exited: child.exited.then((how) => failure ?? how),
    stop: async () => {
      // Asynchronous inserts are the only data that a server may have acknowledged and not stored.
      if (!hasEnded()) await run(url, 'SYSTEM FLUSH ASYNC INSERT QUEUE', stopFlushMs).catch(() => undefined)
      child.kill()
      await child.exited
      rmSync(pidFile, { force: true })
    },
  }
}

/** True when our server answers; no other server has the password. */
async function acceptsQueries(url: string): Promise<boolean> {
  try {
    return (await run(url, 'SELECT 1', 5_000)) === '1\n'
  } catch {
    return false
  }
}

/** Node's own `fetch` would obey a proxy of the environment, which can't reach the server and must not get its password. */
async function run(url: string, sql: string, timeoutMs: number): Promise<string> {
  const { origin, username, password } = new URL(url)
  const query = request(origin, {
    method: 'POST',
    agent: new Agent(),
    headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
    signal: AbortSignal.timeout(timeoutMs),
  })
  // After the response has begun, nobody else listens; `text` rejects then.
  query.on('error', () => undefined)
  query.end(sql)
  const [response] = (await once(query, 'response')) as [IncomingMessage]
  const answer = await text(response)
  if (response.statusCode !== 200) throw new Error(answer)
  return answer
}

function assertPlatform(): void {
  const { platform, arch } = process
  const known = (platform === 'linux' || platform === 'darwin') && (arch === 'x64' || arch === 'arm64')
  if (known && !(platform === 'linux' && isMusl())) return
  throw new Error(
    `There is no embedded ClickHouse for this system (${platform} ${arch}); it needs Linux x64 with glibc. ` +
      'Set SLUICE_CLICKHOUSE_URL to a ClickHouse server, e.g. https://user:password@host:8443/sluice',
  )
}

/** True on Alpine and similar systems: Node's report names glibc's version only where there is one. */
function isMusl(): boolean {
  Object.assign(process.report, { excludeNetwork: true }) // looking up names of interfaces may take seconds
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  return header.glibcVersionRuntime === undefined
}
