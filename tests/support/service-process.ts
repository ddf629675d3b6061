import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from './free-port.ts'
import { nodeFlags, ownRoot } from './node-flags.ts'

/** A service in a process of its own, as production runs it. */
export interface ServiceProcess {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string
  readonly pid: number
  /** The last 256 KiB of its standard output and standard error. */
  output(): string
  /** Its exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>
  /** SIGKILL, SIGSTOP, … to this process alone. */
  signal(signal: NodeJS.Signals): void
  /** SIGTERM; resolves with how it ended. */
  stop(): Promise<number | NodeJS.Signals>
}

/** A program by its file below `services`, without `.ts`. */
export type ProgramName =
  | `${ServiceName}/main`
  | `admin/${'migrate' | 'reshard' | 'backup' | 'restore' | 'replay-dead-letters'}/main`
  | 'standalone/admin-key'

export type ServiceName = 'gateway' | 'writer' | 'query' | 'worker' | 'standalone'

export interface ServiceOptions {
  /** A free one otherwise. */
  port?: number
  /** The root of another clone, whose service is started. */
  root?: URL
}

const outputMax = 256 * 1024
const outputs: (() => string)[] = []

/**
 * The last warnings and errors that the services of this test file have logged, including server errors that they
 * answered. A test that fails because of such an answer prints them.
 */
export function warningsOfServices(): string[] {
  const lines = outputs.flatMap((output) => output().split('\n'))
  return lines.filter((line) => /"level":"(warn|error)"/.test(line)).slice(-20)
}

/** A service is ready within a second or two; on a machine with a load of 50 it took up to 99 s. */
const readyMsMax = 180_000

/** Starts a service with only `environment` as its environment; does not wait until it is ready. */
export function spawnService(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  options: ServiceOptions = {},
): Promise<ServiceProcess> {
  return spawnProgram(`${name}/main`, environment, options)
}

/** Starts a program of the repository with only `environment` as its environment; does not wait until it is ready. */
export async function spawnProgram(
  name: ProgramName,
  environment: Readonly<Record<string, string>>,
  options: ServiceOptions & { arguments?: readonly string[] } = {},
): Promise<ServiceProcess> {
  const { root = ownRoot } = options
  const port = options.port ?? (await findFreePort())
  const program = `services/${name}.ts`
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      ...nodeFlags(program, root),
      fileURLToPath(new URL(program, root)),
      ...(options.arguments ?? []),
    ],
    {
      env: {
        PATH: process.env.PATH,
        // As scripts/prepare.sh sets it for every command.
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        SLUICE_HOST: '127.0.0.1',
        SLUICE_PORT: String(port),
        SLUICE_METRICS_PORT: '0',
        SLUICE_LOG_LEVEL: 'warn',
        // There is no load balancer that needs the time.
        SLUICE_DRAIN_SECONDS: '0',
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let output = ''
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString('utf8')).slice(-outputMax)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  outputs.push(() => output)
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('close', (code, signal) => resolve(signal ?? code ?? -1))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid ?? -1,
    output: () => output,
    exited,
    signal: (signal) => child.kill(signal),
    stop: () => {
      child.kill('SIGTERM')
      return exited
    },
  }
}

/** Starts a service and waits until `/readyz` answers 200. Throws with its output when it ends before that. */
export async function startService(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  options: ServiceOptions = {},
): Promise<ServiceProcess> {
  const service = await spawnService(name, environment, options)
  let ended = false
  void service.exited.then(() => {
    ended = true
  })
  const isUp = async (): Promise<boolean> => {
    if (ended) throw new Error(`${name} ended: ${service.output()}`)
    return isReady(service.url)
  }
  try {
    await waitUntil(isUp, `${name} is ready`, readyMsMax)
  } catch (error) {
    // The caller can't stop the service, because the promise rejects.
    await service.stop()
    throw error
  }
  return service
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`)
    await response.arrayBuffer()
    return response.ok
  } catch {
    return false
  }
}
