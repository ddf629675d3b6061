import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { errorCode } from '@sluice/runtime/errors'

/** Maximum number of characters that are kept of a program's messages. */
const messagesMax = 4_000

/** A database, and where its client programs are. */
export interface PostgresPrograms {
  url: string
  /** PATH of the programs. */
  searchPath: string | undefined
}

const dumpOptions = ['--format=custom', '--no-owner', '--no-privileges', '--no-password']

/** Checks that `dumpPostgres` can make a dump, without reading the rows. Rejects with the same errors. */
export async function requireDumpable(database: PostgresPrograms): Promise<void> {
  const child = start('pg_dump', [...dumpOptions, '--schema-only'], database)
  child.stdout.resume()
  await child.ended
}

/**
 * A dump of the database at `url` in the custom format of `pg_dump`. The program must be on the PATH, in the major
 * version of the server. If the program is missing or fails, reading fails with an Error that says what to do.
 */
export async function* dumpPostgres(database: PostgresPrograms): AsyncGenerator<Uint8Array> {
  const child = start('pg_dump', dumpOptions, database)
  let isRead = false
  try {
    for await (const chunk of child.stdout) yield chunk as Uint8Array
    isRead = true
    await child.ended
  } finally {
    if (!isRead) child.kill()
  }
}

/**
 * Checks with the beginning of a dump that the `pg_restore` on the PATH can read it. Rejects with the errors of
 * `restorePostgres`.
 */
export async function requireReadableDump(programs: PostgresPrograms, dump: Readable): Promise<void> {
  const child = start('pg_restore', ['--list'], programs)
  child.stdout.resume()
  // The program does not read the rest of the dump, so writing the rest fails.
  const [, ended] = await Promise.allSettled([pipeline(dump, child.stdin), child.ended])
  if (ended.status === 'rejected') throw ended.reason
}

/**
 * Restores a dump into the empty database at `url`, in one transaction: after a failure, the database is still empty.
 * Needs `pg_restore` on the PATH. Rejects with the errors of `dumpPostgres` and of `dump`.
 */
export async function restorePostgres(programs: PostgresPrograms, dump: Readable): Promise<void> {
  const { database } = addressOf(programs.url)
  const options = ['--no-owner', '--no-privileges', '--no-password', '--exit-on-error', '--single-transaction']
  const child = start('pg_restore', [...options, `--dbname=${database}`], programs)
  const [written, ended] = await Promise.allSettled([pipeline(dump, child.stdin), child.ended])
  // A program that has failed closes the pipe. Its own error tells more than that of the pipe.
  if (ended.status === 'rejected') throw ended.reason
  if (written.status === 'rejected') throw written.reason
}

function start(program: string, options: readonly string[], { url, searchPath }: PostgresPrograms) {
  const child = spawn(program, options, {
    // Not as an argument, because every user of the machine can read the arguments of a process.
    env: { PATH: searchPath, LC_ALL: 'C', ...addressOf(url).environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let messages = ''
  child.stderr.on('data', (chunk: Buffer) => {
    messages = (messages + chunk.toString()).slice(-messagesMax)
  })
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', (error) => {
      reject(
        errorCode(error) === 'ENOENT'
          ? new Error(
              `${program} is not on the PATH: install the client programs of PostgreSQL, in the server's version`,
              {
                cause: error,
              },
            )
          : error,
      )
    })
    child.once('close', (code, signal) => {
      if (code === 0) resolve()
      else reject(new Error(`${program} ended with ${signal ?? code}: ${explain(program, messages.trim())}`))
    })
  })
  // The reader of the output may fail before anybody awaits this promise.
  ended.catch(() => undefined)
  return { stdin: child.stdin, stdout: child.stdout, ended, kill: () => child.kill() }
}

function explain(program: string, messages: string): string {
  if (/version mismatch|unsupported version|transaction_timeout/.test(messages)) {
    return `${messages}\nPut the folder of a ${program} of the server's major version first on the PATH.`
  }
  if (messages.includes('certificate')) {
    return `${messages}\nName the authorities in SLUICE_POSTGRES_URL: sslrootcert=<PEM file>.`
  }
  return messages
}

/** Parameters of the URL that libpq reads from its environment. */
const parameters: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
}

function addressOf(url: string): { database: string; environment: Record<string, string> } {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url)
  const database = decodeURIComponent(pathname.slice(1))
  const environment: Record<string, string> = {
    PGHOST: hostname.replace(/^\[(.*)\]$/, '$1'),
    PGPORT: port || '5432',
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: database,
    PGAPPNAME: 'sluice',
    ...tlsOf(searchParams),
  }
  for (const [name, value] of searchParams) {
    const variable = parameters[name]
    if (variable !== undefined) environment[variable] = value
  }
  return { database, environment }
}

/**
 * TLS settings for libpq that are as strict as those of pg, with which the services connect. pg treats `prefer`,
 * `require` and `verify-ca` like `verify-full`. libpq would send the password to a server whose certificate it has not
 * verified.
 */
export function tlsOf(parameters: URLSearchParams): Record<string, string> {
  const mode = parameters.get('sslmode')
  const ssl = parameters.get('ssl')
  if (mode === 'disable') return { PGSSLMODE: 'disable' }
  // pg's name for encryption without verification of the certificate.
  if (mode === 'no-verify' || ssl === 'no-verify') return { PGSSLMODE: 'require' }
  const hasTls =
    mode !== null ||
    ssl === 'true' ||
    ssl === '1' ||
    parameters.get('sslnegotiation') === 'direct' ||
    ['sslrootcert', 'sslcert', 'sslkey'].some((name) => parameters.has(name))
  // Without a file of certificate authorities, the system's are used. libpq supports `system` since release 16.
  return hasTls ? { PGSSLMODE: 'verify-full', PGSSLROOTCERT: 'system' } : {}
}
