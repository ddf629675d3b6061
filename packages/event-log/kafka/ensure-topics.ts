import { isDeepStrictEqual } from 'node:util'
import type { Admin } from 'kafkajs'
import { unitMs } from '@sluice/runtime/durations'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { deadLetterRetentionMs } from '../dead-letters.ts'
import {
  describeTopic,
  inSyncWanted,
  replicasWanted,
  siblingTopics,
  type TopicDescription,
  topicResource,
} from './topic-settings.ts'
import { parseKafkaUrl } from './url.ts'
import { withKafkaAdmin } from './with-admin.ts'

/** A block of a large batch may exceed Kafka's default limit of 1 MiB. */
const blockBytesMax = 16 * 1024 * 1024
/** Bytes that a dead letter adds to its record: the reason, and the original place of the record. */
const deadLetterOverheadBytes = 64 * 1024
const usableTimeoutMs = 10_000
const leaderDelays = { firstMs: 50, longestMs: 50 }
/**
 * Kafka deletes older events, even if they are not stored yet, so a writer may be down for this long. Unlimited
 * retention would fill the disks.
 */
const retentionMs = 30 * unitMs.d

export interface EnsureTopicsOptions {
  /** Number of partitions of new topics. Existing topics are not changed. Default 4. */
  partitions?: number
  logger?: Pick<Logger, 'debug' | 'warn'>
}

/**
 * Creates the missing topics of a `kafka:` URL: `<topic>`, `<topic>.backfill` and `<topic>.dead`. They get
 * `min(3, brokers)` replicas; with three, a write needs two in-sync replicas. A replica that lags never becomes leader.
 * Events are kept for 30 days and dead letters for 365, by the clock of the brokers and independent of their size.
 * `<topic>.backfill` gets the partitions, replicas and settings of `<topic>`; an existing one gets the partitions and
 * settings.
 *
 * Returns the names of the new topics. Throws when Kafka can't be reached within 15 s or refuses a request, and when
 * `<topic>.backfill` has more partitions than `<topic>`.
 */
export async function ensureTopics(url: string, options: EnsureTopicsOptions = {}): Promise<string[]> {
  const { topic } = parseKafkaUrl(url)
  const { backfill, dead } = siblingTopics(topic)
  return withKafkaAdmin(url, options.logger ?? silentLogger, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const isMissing = (name: string) => !existing.has(name)
    const missing = [topic, dead].filter(isMissing)
    const { brokers } = await admin.describeCluster()
    const replicationFactor = Math.min(replicasWanted, brokers.length)
    const configEntries = [
      { name: 'unclean.leader.election.enable', value: 'false' },
      // Explicit, because a cluster may have other defaults.
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'retention.bytes', value: '-1' },
      // Sluice compresses the payloads itself. The broker decompresses records that other programs have compressed,
      // perhaps with a codec that kafkajs does not support.
      { name: 'compression.type', value: 'uncompressed' },
      // The clock of a gateway must not determine how long its events are kept, or make the broker refuse them.
      { name: 'message.timestamp.type', value: 'LogAppendTime' },
      ...(replicationFactor === replicasWanted ? [{ name: 'min.insync.replicas', value: String(inSyncWanted) }] : []),
    ]
    const isDead = (name: string) => name === dead
    await createTopics(
      admin,
      missing.map((name) => ({
        name,
        partitions: options.partitions ?? 4,
        replicas: replicationFactor,
        configEntries: [
          ...configEntries,
          { name: 'retention.ms', value: String(isDead(name) ? deadLetterRetentionMs : retentionMs) },
          { name: 'max.message.bytes', value: String(blockBytesMax + (isDead(name) ? deadLetterOverheadBytes : 0)) },
        ],
      })),
    )
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
  const { backfill, dead } = siblingTopics(topic)
  return withKafkaAdmin(url, logger, async (admin) => {
    const existing = new Set(await admin.listTopics())
    if (existing.has(backfill) && existing.has(topic)) {
      requireNotMorePartitions(await describeTopic(admin, backfill), await describeTopic(admin, topic))
    }
    return [topic, dead, backfill].filter((name) => !existing.has(name))
  })
}

/** Resolves when the topics take writes. */
async function createTopics(admin: Admin, topics: readonly TopicDescription[]): Promise<void> {
  if (topics.length === 0) return
  // The call returns false when another process has created a topic in the meantime.
  await admin.createTopics({
    topics: topics.map(({ name, partitions, replicas, configEntries }) => ({
      topic: name,
      numPartitions: partitions,
      replicationFactor: replicas,
      configEntries,
    })),
    // kafkajs's own wait fails if a broker does not know the topic yet, although its next metadata may contain it.
    waitForLeaders: false,
  })
  // A new topic refuses writes until the leaders of all partitions respond.
  for (const { name } of topics) {
    await retry(() => admin.fetchTopicOffsets(name), { delays: leaderDelays, timeoutMs: usableTimeoutMs })
  }
}

/**
 * Gives a topic the partitions and settings of another one. The replicas are not changed; `describeDurability` compares
 * them.
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
