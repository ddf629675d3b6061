import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ServiceProcess, startService } from '../support/service-process.ts'

/** The program `sluice`, as the installation links it. */
export const program = fileURLToPath(new URL('../../packages/cli/bin/sluice.mjs', import.meta.url))

export const repository = fileURLToPath(new URL('../..', import.meta.url))

export interface Run {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  input?: string
  /** Whether the program before the pipe keeps running after this input. */
  isInputOpen?: boolean
  /** A file to which standard output is redirected; by default it is a pipe. */
  outputFile?: string
  env?: Record<string, string>
  /** Called with what was written so far; true ends the command by `signals`. */
  until?: (output: { stdout: string; stderr: string }) => boolean
  /** Sent one after the other; SIGINT by default. */
  signals?: readonly NodeJS.Signals[]
}

export interface StoredEvent {
  event_id: string
  event_type: string
  timestamp: number
  [field: string]: unknown
}

/** A standalone Sluice, and the commands that talk to it with its admin key. */
export interface Standalone {
  service: ServiceProcess
  /** Where the commands run; it is removed at the end. */
  folder: string
  /** The admin key. */
  key: string
  /** A key that may only send and read events of the site `shop`. */
  shopKey: string
  /** A key that may only read. */
  readKey: string
  /** Runs `sluice` with these arguments until it ends. */
  run: (args: readonly string[], options?: RunOptions) => Promise<Run>
  /** Writes a file into the folder and returns its name. */
  write: (name: string, content: string | Buffer) => Promise<string>
  /** Creates a key with the options of `sluice keys create`. */
  createKey: (name: string, ...options: string[]) => Promise<string>
  /** The stored events of a site, the oldest first. */
  eventsOf: (site: string) => Promise<StoredEvent[]>
  /** The stored events of a site, once there are `count`. */
  waitForEvents: (site: string, count: number) => Promise<StoredEvent[]>
  stop: () => Promise<void>
}

/** Time limit of hooks that start a standalone, for a busy machine. */
export const startMsMax = 600_000

export async function startStandalone(): Promise<Standalone> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cli-'))
  const service = await startService('standalone', { SLUICE_DATA_DIR: join(folder, 'data') })
  const key = /svc_prod_\w+/.exec(service.output())?.[0] ?? ''
  const running = new Set<ChildProcess>()

  const run = async (
    args: readonly string[],
    { input = '', isInputOpen = false, outputFile, env = {}, until, signals = ['SIGINT'] }: RunOptions = {},
  ): Promise<Run> => {
    const file = outputFile === undefined ? undefined : await open(outputFile, 'w')
    const child = spawn(process.execPath, [program, ...args], {
      cwd: folder,
      stdio: ['pipe', file?.fd ?? 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        TZ: 'UTC',
        SLUICE_CONFIG: join(folder, 'no-config.json'),
        SLUICE_URL: service.url,
        SLUICE_API_KEY: key,
        ...env,
      },
    })
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve))
    await file?.close()
    running.add(child)
    const output = { stdout: '', stderr: '' }
    let isInterrupted = false
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        output[name] += text
        if (isInterrupted || !until?.(output)) return
        isInterrupted = true
        for (const signal of signals) child.kill(signal)
      })
    }
    child.stdin?.on('error', () => undefined)
    child.stdin?.write(input)
    if (!isInputOpen) child.stdin?.end()
    const code = await closed
    running.delete(child)
    // No command prints a key that it was given.
    expect(output.stdout + output.stderr).not.toContain(key)
    return { code, ...output }
  }

  const eventsOf = async (site: string): Promise<StoredEvent[]> => {
    const query = new URLSearchParams({
      site_id: site,
      start_date: '31536000000',
      end_date: '4102444800000',
      limit: '1000',
    })
    const response = await fetch(`${service.url}/api/v1/events?${query.toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
    })
    const { data } = (await response.json()) as { data?: { events: StoredEvent[] } }
    return data?.events.toReversed() ?? []
  }

  const createKey = async (name: string, ...options: string[]): Promise<string> =>
    (await run(['keys', 'create', name, ...options])).stdout.trim()

  return {
    service,
    folder,
    key,
    shopKey: await createKey('shop', '--sites', 'shop'),
    readKey: await createKey('reader', '--scope', 'stats:read'),
    run,
    write: async (name, content) => {
      await writeFile(join(folder, name), content)
      return name
    },
    createKey,
    eventsOf,
    waitForEvents: async (site, count) => {
      await waitUntil(async () => (await eventsOf(site)).length >= count, `${count} events of ${site} are stored`)
      return eventsOf(site)
    },
    stop: async () => {
      // A test that fails may leave a command that waits.
      for (const child of running) child.kill('SIGKILL')
      await service.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** A proxy, and the environment variables with which commands use it. */
export interface Proxy {
  env: Record<string, string>
  stop: () => void
}

/** Starts a proxy before the service at `target`. It refuses the requests for which `refusalOf` gives a status. */
export async function startProxy(
  target: string,
  refusalOf: (url: string, body: Buffer) => number | undefined,
): Promise<Proxy> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = 'GET', url = '', headers } = request
    const body = Buffer.concat(await request.toArray())
    const refusal = refusalOf(url, body)
    if (refusal !== undefined) {
      response.writeHead(refusal, { 'Content-Type': 'text/html' }).end(`<h1>${refusal}</h1>`)
      return
    }
    const answered = await fetch(target + url, {
      method,
      headers: { Authorization: headers.authorization ?? '', 'Content-Type': headers['content-type'] ?? '' },
      ...(method === 'POST' && { body }),
    })
    response.writeHead(answered.status, { 'Content-Type': 'application/json' }).end(await answered.text())
  }
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { env: { SLUICE_URL: url, SLUICE_COLLECT_URL: url }, stop: () => server.close() }
}
