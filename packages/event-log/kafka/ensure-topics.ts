import { isDeepStrictEqual } from 'node:util'
import kafkajs, { type Admin, type ConfigEntries, type IResourceConfigEntry } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { deadLetterDays } from '../dead-letters.ts'
import { kafkaErrorType } from './client.ts'
import { parseKafkaUrl } from './url.ts'
import { withKafkaAdmin } from './with-admin.ts'

const ignore = () => undefined
const silent: Pick<Logger, 'debug' | 'warn'> = { debug: ignore, warn: ignore }

/** The resource type of a topic in requests for its settings; Node finds this enum in the default export alone. */
export const topicResource = kafkajs.ConfigResourceTypes.TOPIC
/** The source of a setting of the topic itself, not of its brokers. */
const ofTopic = kafkajs.ConfigSource.TOPIC_CONFIG
/** Kafka's 1 MiB is less than one block of a large batch. */
const blockBytesMax = 16 * 1024 * 1024
/** What a dead letter adds to its record: the reason, and where the record was. */
const letterBytesMax = 64 * 1024
const usableTimeoutMs = 10_000
const leaderDelays = { firstMs: 50, longestMs: 50 }
const replicasWanted = 3
const inSyncWanted = 2
const dayMs = 86_400_000
/**
 * Kafka deletes older events, stored or not: a writer may be down for this long. Unlimited retention would fill the
 * disks.
 */
const retentionDays = 30
/** Kafka's own default; a writer that is down for longer does not go unnoticed. */
const retentionDaysWanted = 7
/** What brokers may do with the compression of a record so that kafkajs reads it. */
const readableCodecs = ['producer', 'uncompressed', 'gzip', 'zstd']

export interface EnsureTopicsOptions {
  /** Partitions of new topics; existing topics are left as they are. Default 4. */
  partitions?: number
  logger?: Pick<Logger, 'debug' | 'warn'>
}

/**
 * Creates `<topic>`, `<topic>.backfill` and `<topic>.dead` of a `kafka:` URL where they are missing, with
 * `min(3, brokers)` replicas; with three, a write needs two in-sync replicas. A replica that lags never becomes leader.
 * Events are kept for 30 days by the clock of the brokers, whatever they take, dead letters for 365. `<topic>.backfill`
 * has the partitions, the replicas and the settings of `<topic>`, also when these were changed since. Returns the names
 * of the new topics. Throws when Kafka can't be reached within 15 s or refuses, and when `<topic>.backfill` has too
 * many partitions.
 */
export async function ensureTopics(url: string, options: EnsureTopicsOptions = {}): Promise<string[]> {
  const { topic } = parseKafkaUrl(url)
  return withKafkaAdmin(url, options.logger ?? silent, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const isMissing = (name: string) => !existing.has(name)
    const missing = [topic, `${topic}.dead`].filter(isMissing)
    const { brokers } = await admin.describeCluster()
    const replicationFactor = Math.min(replicasWanted, brokers.length)
    const configEntries = [
      { name: 'unclean.leader.election.enable', value: 'false' },
      // Explicit, because a cluster may have other defaults.
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'retention.bytes', value: '-1' },
      // Sluice compresses the payloads itself. What other programs compress, perhaps with a codec that kafkajs does not
      // know, is unpacked by the broker.
      { name: 'compression.type', value: 'uncompressed' },
      // The clock of a gateway must neither decide how long its events are kept, nor have the broker refuse them.
      { name: 'message.timestamp.type', value: 'LogAppendTime' },
      ...(replicationFactor === replicasWanted ? [{ name: 'min.insync.replicas', value: String(inSyncWanted) }] : []),
    ]
    const isDead = (name: string) => name !== topic
    await createTopics(
      admin,
      missing.map((name) => ({
        name,
        partitions: options.partitions ?? 4,
        replicas: replicationFactor,
        configEntries: [
          ...configEntries,
          { name: 'retention.ms', value: String((isDead(name) ? deadLetterDays : retentionDays) * dayMs) },
          { name: 'max.message.bytes', value: String(blockBytesMax + (isDead(name) ? letterBytesMax : 0)) },
        ],
      })),
    )
    const backfill = `${topic}.backfill`
    if (!isMissing(backfill)) await alignTopic(admin, backfill, topic)
    else {
      await createTopics(admin, [{ ...(await describeTopic(admin, topic)), name: backfill }])
      missing.push(backfill)
    }
    return missing
  })
}

/** Names of the topics that `ensureTopics` would create. Throws as it does. */
export async function missingTopics(url: string, logger: Pick<Logger, 'debug' | 'warn'> = silent): Promise<string[]> {
  const { topic } = parseKafkaUrl(url)
  return withKafkaAdmin(url, logger, async (admin) => {
    const backfill = `${topic}.backfill`
    const existing = new Set(await admin.listTopics())
    if (existing.has(backfill) && existing.has(topic)) {
      requireNotMorePartitions(await describeTopic(admin, backfill), await describeTopic(admin, topic))
    }
    return [topic, `${topic}.dead`, backfill].filter((name) => !existing.has(name))
  })
}

/**
 * The properties in which two topics must agree to be equally durable; `partitions`, so that copies of an event meet.
 */
interface TopicDescription {
  name: string
  partitions: number
  /** Replicas of the partition that has the fewest. */
  replicas: number
  /** The settings of the topic itself, by name. */
  configEntries: IResourceConfigEntry[]
}

/** Resolves when the topics take writes. */
async function createTopics(admin: Admin, topics: readonly TopicDescription[]): Promise<void> {
  if (topics.length === 0) return
  // The call returns false when another migration was faster.
  await admin.createTopics({
    topics: topics.map(({ name, partitions, replicas, configEntries }) => ({
      topic: name,
      numPartitions: partitions,
      replicationFactor: replicas,
      configEntries,
    })),
    // kafkajs's own wait fails on a topic that is not known yet, which the next metadata may contain.
    waitForLeaders: false,
  })
  // A new topic refuses writes until the leaders of all partitions respond.
  for (const { name } of topics) {
    await retry(() => admin.fetchTopicOffsets(name), { delays: leaderDelays, timeoutMs: usableTimeoutMs })
  }
}

/**
 * Gives a topic the partitions and the settings of another one. Its replicas stay: `describeDurability` compares them.
 */
async function alignTopic(admin: Admin, name: string, model: string): Promise<void> {
  const [topic, wanted] = [await describeTopic(admin, name), await describeTopic(admin, model)]
  requireNotMorePartitions(topic, wanted)
  if (topic.partitions < wanted.partitions) {
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: wanted.partitions }] })
  }
  if (!isDeepStrictEqual(topic.configEntries, wanted.configEntries)) {
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: topicResource, name, configEntries: wanted.configEntries }],
    })
  }
}

function requireNotMorePartitions(topic: TopicDescription, wanted: TopicDescription): void {
  if (topic.partitions <= wanted.partitions) return
  throw new Error(
    `topic ${topic.name} has ${topic.partitions} partitions and ${wanted.name} has ${wanted.partitions}: they must be equal, ` +
      `and Kafka removes no partitions. Add partitions to ${wanted.name} as docs/operations.md describes it`,
  )
}

async function describeTopic(admin: Admin, name: string): Promise<TopicDescription> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
  const partitions = topics.flatMap((topic) => topic.partitions)
  const entries = await topicSettings(admin, name)
  return {
    name,
    partitions: partitions.length,
    replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
    configEntries: entries
      .filter(({ configSource }) => configSource === ofTopic)
      .map(({ configName, configValue }) => ({ name: configName, value: configValue }))
      .sort((a, b) => a.name.localeCompare(b.name)),
  }
}

/** All settings that apply to a topic, those of its brokers included. */
async function topicSettings(admin: Admin, name: string): Promise<ConfigEntries[]> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: topicResource, name }],
  })
  return resources.flatMap(({ configEntries }) => configEntries)
}

/** The settings of a topic by their names; undefined if this user of Kafka may not read them. */
async function readableSettings(admin: Admin, name: string): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    const settings = await topicSettings(admin, name)
    return new Map(settings.map(({ configName, configValue }) => [configName, configValue]))
  } catch (error) {
    if (kafkaErrorType(error) === 'TOPIC_AUTHORIZATION_FAILED') return undefined
    throw error
  }
}

/**
 * Reasons why an acknowledged event could still be lost in this cluster, as an event or as a dead letter, one sentence
 * each; empty for three replicas, two of them in sync, no unclean election, at least a week of retention (a year for
 * dead letters) and records that writers can decompress, and for `file:`. A topic whose settings may not be read is one
 * of them. Rejects while Kafka can't be reached.
 */
export async function describeDurability(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'> = silent,
): Promise<string[]> {
  if (!url.startsWith('kafka:')) return []
  const { topic } = parseKafkaUrl(url)
  const [backfill, dead] = [`${topic}.backfill`, `${topic}.dead`]
  return withKafkaAdmin(url, logger, async (admin) => {
    const existing = await admin.listTopics()
    const risks: string[] = []
    const partitions: number[] = []
    for (const name of [topic, backfill, dead]) {
      if (!existing.includes(name)) {
        risks.push(`Topic ${name} is missing: "npm run migrate" creates it`)
        continue
      }
      const settings = await readableSettings(admin, name)
      if (settings === undefined) {
        risks.push(`Topic ${name} can't be checked: Sluice's user of Kafka may not read its settings (DescribeConfigs)`)
        continue
      }
      const description = await describeTopic(admin, name)
      const daysWanted = name === dead ? deadLetterDays : retentionDaysWanted
      risks.push(...findRisks(description.replicas, settings, daysWanted).map((risk) => `Topic ${name} has ${risk}`))
      if (name !== dead) partitions.push(description.partitions)
    }
    if (new Set(partitions).size > 1) {
      risks.push(
        `Topic ${topic} has ${partitions[0]} partitions and ${backfill} has ${partitions[1]}: until they are equal, which ` +
          'npm run migrate sees to, old events slow the others down',
      )
    }
    return risks
  })
}

function findRisks(replicas: number, settings: ReadonlyMap<string, string>, retentionDaysMin: number): string[] {
  const found: string[] = []
  if (replicas < replicasWanted) {
    found.push(`${replicas} replicas: with fewer than ${replicasWanted}, lost machines lose events`)
  }
  const inSync = Number(settings.get('min.insync.replicas'))
  if (inSync < inSyncWanted) {
    found.push(`min.insync.replicas=${inSync}: below ${inSyncWanted}, one lost machine can lose events`)
  }
  if (settings.get('unclean.leader.election.enable') === 'true') {
    found.push('unclean.leader.election.enable=true: a replica that lags may become leader and lose events')
  }
  const retentionMs = Number(settings.get('retention.ms'))
  if (retentionMs >= 0 && retentionMs < retentionDaysMin * dayMs) {
    found.push(`retention.ms=${retentionMs}: below ${retentionDaysMin} days, events that wait for longer are lost`)
  }
  const retentionBytes = Number(settings.get('retention.bytes'))
  if (retentionBytes >= 0) {
    found.push(`retention.bytes=${retentionBytes}: events beyond it are deleted, stored or not`)
  }
  const codec = settings.get('compression.type') ?? 'producer'
  if (!readableCodecs.includes(codec)) {
    found.push(
      `compression.type=${codec}: brokers compress events anew, and writers can't read this codec. Set it to uncompressed`,
    )
  }
  const policy = settings.get('cleanup.policy') ?? ''
  if (policy.includes('compact')) {
    found.push(`cleanup.policy=${policy}: compaction deletes events, stored or not`)
  }
  return found
}
