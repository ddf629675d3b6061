import { isDeepStrictEqual } from 'node:util'
import type { Admin } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { deadLetterDays } from '../dead-letters.ts'
import {
  dayMs,
  describeTopic,
  inSyncWanted,
  replicasWanted,
  type TopicDescription,
  topicResource,
} from './topic-settings.ts'
import { parseKafkaUrl } from './url.ts'
import { silentLogger, withKafkaAdmin } from './with-admin.ts'

/** Kafka's 1 MiB is less than one block of a large batch. */
const blockBytesMax = 16 * 1024 * 1024
/** What a dead letter adds to its record: the reason, and where the record was. */
const deadLetterOverheadBytes = 64 * 1024
const usableTimeoutMs = 10_000
const leaderDelays = { firstMs: 50, longestMs: 50 }
/**
 * Kafka deletes older events, stored or not: a writer may be down for this long. Unlimited retention would fill the
 * disks.
 */
const retentionDays = 30

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
  return withKafkaAdmin(url, options.logger ?? silentLogger, async (admin) => {
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
          { name: 'max.message.bytes', value: String(blockBytesMax + (isDead(name) ? deadLetterOverheadBytes : 0)) },
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
export async function missingTopics(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'> = silentLogger,
): Promise<string[]> {
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
