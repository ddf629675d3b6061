import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '@sluice/engines/processes'
import { waitUntil } from '@sluice/runtime/wait-until'
import { nodeFlags } from './node-flags.ts'

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
  `${ServiceName}/main` | `admin/${'migrate' | 'backup' | 'restore'}/main` | 'standalone/admin-key'

export type ServiceName = 'gateway' | 'writer' | 'query' | 'worker' | 'standalone'

const outputMax = 256 * 1024

/** Starts a service with nothing in its environment but `environment`; does not wait for it. */
export function spawnService(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  options: { port?: number } = {},
): Promise<ServiceProcess> {
  return spawnProgram(`${name}/main`, environment, options)
}

/** Starts a program of the repository with nothing in its environment but `environment`; does not wait for it. */
export async function spawnProgram(
  name: ProgramName,
  environment: Readonly<Record<string, string>>,
  options: { port?: number; arguments?: readonly string[] } = {},
): Promise<ServiceProcess> {
  const port = options.port ?? (await findFreePort())
  const program = `services/${name}.ts`
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      ...nodeFlags(program),
      fileURLToPath(new URL(`../../${program}`, import.meta.url)),
      ...(options.arguments ?? []),
    ],
    {
      env: {
        PATH: process.env.PATH,
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
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('close', (code, signal) => {
      resolve(signal ?? code ?? -1)
    })
  })
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid ?? -1,
    output: () => output,
    exited,
    signal: (signal) => {
      child.kill(signal)
    },
    stop: () => {
      child.kill('SIGTERM')
      return exited
    },
  }
}

/** Starts a service and waits until `/readyz` answers 200. Throws with its output when it ends before that. */
export async function startService(...call: Parameters<typeof spawnService>): Promise<ServiceProcess> {
  const service = await spawnService(...call)
  let ended = false
  void service.exited.then(() => {
    ended = true
  })
  await waitUntil(async () => {
    if (ended) throw new Error(`${call[0]} ended: ${service.output()}`)
    return isReady(service.url)
  }, `${call[0]} is ready`)
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
