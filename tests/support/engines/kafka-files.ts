import { execFile, execFileSync } from 'node:child_process'
import { accessSync, constants, cpSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const kafkaVersion = '4.1.0'
const javaVersionMin = 17
/** Git ignores it. */
const cacheDir = fileURLToPath(new URL(`../../../.cache/kafka-${kafkaVersion}`, import.meta.url))
const downloadTimeoutMs = 300_000

/** The broker, and a logger that prints warnings; without a logger, Kafka would print no errors. */
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sluice</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${kafkaVersion}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

export interface KafkaFiles {
  /** For `java -cp`. */
  classPath: string
  /** The file of a formatted data folder that does not depend on its ids. */
  bootstrapCheckpoint: string
  /**
   * The JVM's archive of the classes that a broker loads, valid for the paths of its jars. The first start makes it.
   */
  classArchive: string
}

/** True when startKafka needs no download. */
export function isKafkaCached(): boolean {
  return existsSync(cacheDir)
}

/**
 * One line on what this machine lacks to run a Kafka and how to get it; undefined when it lacks nothing. Takes 0.1 s.
 */
export function kafkaMissing(): string | undefined {
  const version = javaVersion()
  if (version === undefined || version < javaVersionMin) {
    const found = version === undefined ? 'there is none' : `there is Java ${version}`
    return `Kafka needs Java ${javaVersionMin} or newer, ${found}: apt-get install openjdk-17-jre-headless maven (macOS: brew install openjdk maven)`
  }
  if (!isKafkaCached() && !isOnPath('mvn'))
    return 'Kafka is fetched by Maven, there is none: apt-get install maven (macOS: brew install maven)'
  return undefined
}

/** JAVA_HOME's, else the one on the path. */
export function javaCommand(): string {
  const { JAVA_HOME: home } = process.env
  return home ? join(home, 'bin', 'java') : 'java'
}

/** Kafka's jars: from Maven Central once (46 files, 43 MB, 5 s), then from the cache folder. Throws Maven's message. */
export async function kafkaFiles(): Promise<KafkaFiles> {
  if (!isKafkaCached()) await fillCache()
  return {
    classPath: join(cacheDir, 'lib', '*'),
    bootstrapCheckpoint: join(cacheDir, 'bootstrap.checkpoint'),
    classArchive: join(cacheDir, 'classes.jsa'),
  }
}

/**
 * Fills a folder beside the cache folder and renames it, because several runs may do so at once, and a run may be
 * killed.
 */
async function fillCache(): Promise<void> {
  const run = promisify(execFile)
  const draft = `${cacheDir}.new-${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  try {
    writeFileSync(join(draft, 'pom.xml'), pom)
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(draft, 'lib')}`]
    await run('mvn', ['--batch-mode', '--quiet', '--file', join(draft, 'pom.xml'), ...goal], {
      timeout: downloadTimeoutMs,
    })

    // Formatting a folder takes 0.7 s; its result is the same each time but for two ids.
    const data = join(draft, 'data')
    const ports = { port: 9092, advertisedPort: 9092, controllerPort: 9093 }
    const times = { sessionTimeoutMsMin: 6_000, brokerSessionMs: 2_000 }
    const properties = renderProperties({ nodeId: controllerId, dataDir: data, ...ports, ...times })
    writeFileSync(join(draft, 'server.properties'), properties)
    const format = [
      'kafka.tools.StorageTool',
      'format',
      '-t',
      'AAAAAAAAAAAAAAAAAAAAAQ',
      '-c',
      join(draft, 'server.properties'),
    ]
    await run(javaCommand(), ['-cp', join(draft, 'lib', '*'), ...format])
    cpSync(join(data, 'bootstrap.checkpoint'), join(draft, 'bootstrap.checkpoint'))
    rmSync(data, { recursive: true })

    renameSync(draft, cacheDir)
  } catch (error) {
    if (!isKafkaCached()) throw error // else another run was faster
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** The node id of the first broker of a cluster, which is its controller, too. */
export const controllerId = 1

export interface KafkaSettings {
  nodeId: number
  dataDir: string
  port: number
  advertisedPort: number
  /** The port of the cluster's controller. */
  controllerPort: number
  sessionTimeoutMsMin: number
  brokerSessionMs: number
  sasl?: KafkaSasl | undefined
}

/** A further listener of a broker, whose clients authenticate with SASL PLAIN as its only user. */
export interface KafkaSasl {
  port: number
  username: string
  password: string
}

/**
 * server.properties of a KRaft node: a broker, and with `controllerId` also the controller. Topics are not created
 * automatically. A killed broker can start again only when its session with the controller has ended; with Kafka's
 * default of 9 s this takes 13 s. If a session ends because the machine is busy, the broker leads no partitions for a
 * while.
 */
export function renderProperties(settings: KafkaSettings): string {
  const { nodeId, dataDir, port, advertisedPort, controllerPort, sessionTimeoutMsMin, brokerSessionMs, sasl } = settings
  const isController = nodeId === controllerId
  const saslListener = sasl === undefined ? '' : `,SASL://127.0.0.1:${sasl.port}`
  return `process.roles=broker${isController ? ',controller' : ''}
node.id=${nodeId}
controller.quorum.voters=${controllerId}@127.0.0.1:${controllerPort}
listeners=PLAINTEXT://127.0.0.1:${port}${saslListener}${isController ? `,CONTROLLER://127.0.0.1:${controllerPort}` : ''}
advertised.listeners=PLAINTEXT://127.0.0.1:${advertisedPort}${saslListener}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT
log.dirs=${dataDir}
auto.create.topics.enable=false
broker.session.timeout.ms=${brokerSessionMs}
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=${sessionTimeoutMsMin}
${sasl === undefined ? '' : saslProperties(sasl)}`
}

function saslProperties({ username, password }: KafkaSasl): string {
  const loginModule = 'org.apache.kafka.common.security.plain.PlainLoginModule'
  return `sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=${loginModule} required user_${username}="${password}";
`
}

function javaVersion(): number | undefined {
  try {
    // On standard error: openjdk version "17.0.15" …
    const output = execFileSync('/bin/sh', ['-c', '"$0" -version 2>&1', javaCommand()], { encoding: 'utf8' })
    const version = /version "(\d+)/.exec(output)?.[1]
    return version === undefined ? undefined : Number(version)
  } catch {
    return undefined
  }
}

function isOnPath(command: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((dir) => {
    try {
      accessSync(join(dir, command), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
