// For tests and benchmarks: no service starts a Kafka of its own.
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startInLockedFolder } from '@sluice/engines/data-folder'
import { endOrphan, readPid } from '@sluice/engines/processes'
import { runWithWatchdog, type WatchedProgram } from '@sluice/engines/run-with-watchdog'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../free-port.ts'
import {
  controllerId,
  javaCommand,
  type KafkaFiles,
  kafkaFiles,
  type KafkaSasl,
  renderProperties,
} from './kafka-files.ts'
import { kafkaAnswers } from './kafka-probe.ts'
import { pauseProcess } from './pause-process.ts'

/** What a further broker needs to join a cluster. */
export interface KafkaCluster {
  id: string
  controllerPort: number
}

export interface LocalKafka {
  /** `127.0.0.1:<port>`, for the list of brokers. */
  readonly brokers: string
  readonly port: number
  /** The process id of the present broker; another one after a restart. */
  readonly pid: number
  /** The cluster of this broker, which others may join. */
  readonly cluster: KafkaCluster
  /** Shuts the broker down for good and releases the folder; resolves when it has ended. */
  stop(): Promise<void>
  /** Shuts the broker down; `restart` may start it again. */
  shutDown(): Promise<void>
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Freezes it: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /**
   * Starts the broker again on the same port and data; it may be running, killed or shut down. Resolves when it
   * answers.
   */
  restart(): Promise<void>
}

export interface KafkaOptions {
  dir: string
  /** A free port is taken when it isn't given. */
  port?: number
  /** The port that clients are told to use, for a proxy between them and Kafka. Default `port`. */
  advertisedPort?: number
  /** Lowest session timeout that consumers may request, in ms. Kafka's own 6,000 makes tests of rebalances slow. */
  sessionTimeoutMsMin?: number
  /**
   * How long the broker may send no heartbeat before it loses its partitions. A start after a kill takes as long.
   * Default 2,000 ms.
   */
  brokerSessionMs?: number
  /**
   * The cluster that this broker joins, with a node id of 2 or more. By default, the broker is the controller of a new
   * cluster.
   */
  joins?: { cluster: KafkaCluster; nodeId: number }
  /** A further listener, at a free port. By default, clients need no password. */
  sasl?: KafkaSasl
  /**
   * Whether the JVM uses its optimising compiler (C2), as in production. Tests are too short for it: C2 took a third of
   * the CPU time of the tests of packages/event-log/kafka. Default false.
   */
  isOptimised?: boolean
  /** Gives up a start that is under way; startKafka rejects then. */
  signal?: AbortSignal
}

const startTimeoutMs = 120_000
const stopTimeoutMs = 5_000

/**
 * Starts Apache Kafka, a KRaft node on 127.0.0.1 that ends with this process (about 3 s, 350 MB). The first start on a
 * machine downloads it from Maven Central. Locks `dir`. Topics must be created explicitly.
 *
 * Throws when the folder is in use, when Java or Maven is missing (see kafkaMissing), or with Kafka's own message.
 */
export function startKafka({
  dir,
  port: askedPort,
  advertisedPort,
  sessionTimeoutMsMin = 1_000,
  brokerSessionMs = 2_000,
  joins,
  sasl,
  isOptimised = false,
  signal,
}: KafkaOptions): Promise<LocalKafka> {
  return startInLockedFolder(dir, 'Kafka', async (folder, release) => {
    const files = await kafkaFiles()
    if (!existsSync(files.classArchive)) await archiveClasses(files, signal)
    const options = [`-XX:SharedArchiveFile=${files.classArchive}`]
    if (!isOptimised) options.push('-XX:TieredStopAtLevel=1')
    const port = askedPort ?? (await findFreePort())
    const nodeId = joins?.nodeId ?? controllerId
    const controllerPort = joins?.cluster.controllerPort ?? (await findFreePort())
    const dataDir = join(folder, 'data')
    const properties = renderProperties({
      nodeId,
      dataDir,
      port,
      advertisedPort: advertisedPort ?? port,
      controllerPort,
      sessionTimeoutMsMin,
      brokerSessionMs,
      sasl,
    })
    writeFileSync(propertiesFile(folder), properties)
    const clusterId = formatFolder(dataDir, files, nodeId, joins?.cluster.id ?? randomUuid())
    await endOrphan(readPid(pidFile(folder)), propertiesFile(folder), 'SIGKILL')

    let broker = await startBroker({ folder, port, files, options, signal })
    const kill = async (): Promise<void> => {
      broker.signal('SIGKILL')
      await broker.exited
    }
    const stopBroker = async (): Promise<void> => {
      broker.signal('SIGCONT')
      broker.signal('SIGTERM')
      const timer = setTimeout(() => broker.signal('SIGKILL'), stopTimeoutMs)
      await broker.exited
      clearTimeout(timer)
    }
    return {
      brokers: `127.0.0.1:${port}`,
      port,
      get pid() {
        return broker.pid
      },
      cluster: { id: clusterId, controllerPort },
      stop: async () => {
        await stopBroker()
        rmSync(pidFile(folder), { force: true })
        release()
      },
      shutDown: stopBroker,
      kill,
      pause: () => pauseProcess(broker.pid),
      resume: () => process.kill(broker.pid, 'SIGCONT'),
      restart: async () => {
        await stopBroker()
        broker = await startBroker({ folder, port, files, options })
      },
    }
  })
}

/**
 * Runs a broker once for the JVM's archive of its classes, with which a start takes 1.5 s of the processor instead of
 * 2.7.
 */
async function archiveClasses(files: KafkaFiles, signal?: AbortSignal): Promise<void> {
  const folder = mkdtempSync(`${files.classArchive}-`)
  try {
    const dataDir = join(folder, 'data')
    const [port, controllerPort] = [await findFreePort(), await findFreePort()]
    const settings = { nodeId: controllerId, advertisedPort: port, sessionTimeoutMsMin: 1_000, brokerSessionMs: 2_000 }
    writeFileSync(propertiesFile(folder), renderProperties({ ...settings, dataDir, port, controllerPort }))
    formatFolder(dataDir, files, controllerId, randomUuid())
    const archive = join(folder, 'classes.jsa')
    const options = [`-XX:ArchiveClassesAtExit=${archive}`]
    const broker = await startBroker({ folder, port, files, options, signal })
    broker.signal('SIGTERM')
    await broker.exited
    // A JVM that has no such archives starts without one.
    if (existsSync(archive)) renameSync(archive, files.classArchive)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Broker {
  folder: string
  port: number
  files: KafkaFiles
  /** Of the JVM. */
  options: readonly string[]
  signal?: AbortSignal | undefined
}

async function startBroker({ folder, port, files, options, signal }: Broker): Promise<WatchedProgram> {
  const logFile = join(folder, 'kafka.log')
  const common = ['-Xmx512m', '-XX:+ExitOnOutOfMemoryError', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn']
  const broker = await runWithWatchdog(
    {
      command: javaCommand(),
      args: [...common, ...options, '-cp', files.classPath, 'kafka.Kafka', propertiesFile(folder)],
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: folder },
      signalWhenOrphaned: 'SIGKILL',
    },
    logFile,
  )
  writeFileSync(pidFile(folder), `${broker.pid}\n`)
  try {
    const ready = async (): Promise<boolean> => {
      signal?.throwIfAborted()
      return broker.hasExited() || (await kafkaAnswers('127.0.0.1', port))
    }
    await waitUntil(ready, 'Kafka answers', startTimeoutMs)
    if (broker.hasExited()) throw new Error(`Kafka did not start:\n${readFileSync(logFile, 'utf8').trim()}`)
    return broker
  } catch (error) {
    broker.signal('SIGKILL')
    await broker.exited
    throw error
  }
}

/**
 * Formats the data folder as Kafka's own `format` does, without a second Java process. Returns the id of the cluster:
 * that of an earlier start, if there was one.
 */
function formatFolder(
  dataDir: string,
  { bootstrapCheckpoint }: KafkaFiles,
  nodeId: number,
  newClusterId: string,
): string {
  const metaFile = join(dataDir, 'meta.properties')
  if (!existsSync(metaFile)) {
    mkdirSync(dataDir, { recursive: true })
    cpSync(bootstrapCheckpoint, join(dataDir, 'bootstrap.checkpoint'))
    const lines = ['version=1', `cluster.id=${newClusterId}`, `node.id=${nodeId}`, `directory.id=${randomUuid()}`, '']
    writeFileSync(metaFile, lines.join('\n'))
  }
  return /^cluster\.id=(.+)$/m.exec(readFileSync(metaFile, 'utf8'))?.[1] ?? ''
}

/**
 * Kafka writes its UUIDs in base64url, and never with a dash in front, which command lines would take for an option.
 */
function randomUuid(): string {
  return `k${randomBytes(16).toString('base64url').slice(1)}`
}

function propertiesFile(folder: string): string {
  return join(folder, 'server.properties')
}

function pidFile(folder: string): string {
  return join(folder, 'kafka.pid')
}
