import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWith } from './describe-with.ts'
import { findFreePort } from './free-port.ts'

/** Where Debian installs it. */
const searchPath = `${process.env.PATH ?? ''}:/usr/sbin`

/** For suites with a PgBouncer: `apt-get install pgbouncer`. */
export const describeWithPgbouncer = describeWith('PgBouncer', hasPgbouncer())

function hasPgbouncer(): boolean {
  try {
    execFileSync('pgbouncer', ['--version'], { stdio: 'ignore', env: { ...process.env, PATH: searchPath } })
    return true
  } catch {
    return false
  }
}

/** Starts a PgBouncer before the Postgres of `url`; returns its URL. */
export async function startPgbouncer(
  url: string,
  settings: Readonly<Record<string, string>>,
): Promise<{ url: string; stop(): Promise<void> }> {
  const target = new URL(url)
  const port = await findFreePort()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pgbouncer-'))
  const isRoot = process.getuid?.() === 0
  const login = `user=${decodeURIComponent(target.username)} password=${decodeURIComponent(target.password)}`
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'any',
    ignore_startup_parameters: 'statement_timeout,idle_in_transaction_session_timeout,lock_timeout',
    // It refuses to run as root.
    ...(isRoot && { user: 'nobody' }),
    ...settings,
  }
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]\n* = host=${target.hostname} port=${target.port} ${login}\n[pgbouncer]\n${Object.entries(lines)
      .map(([name, value]) => `${name} = ${value}`)
      .join('\n')}\n`,
  )
  chmodSync(folder, 0o755)
  const child = spawn('pgbouncer', [file], { stdio: 'ignore', env: { ...process.env, PATH: searchPath } })
  const ended = new Promise((resolve) => child.once('close', resolve))
  await waitUntil(() => accepts(port), 'PgBouncer')
  const own = new URL(url)
  own.hostname = '127.0.0.1'
  own.port = String(port)
  return {
    url: own.href,
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true })
    },
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
