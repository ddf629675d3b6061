import type { Admin, ConfigResourceTypes } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { deadLetterDays } from '../dead-letters.ts'
import { createKafkaAdmin, createKafkaClient, describeKafkaError } from './client.ts'
import { forwardKafkaLogs } from './forward-logs.ts'
import { parseKafkaUrl } from './url.ts'

const ignore = () => undefined
const silent: Pick<Logger, 'debug' | 'warn'> = { debug: ignore, warn: ignore }

/** The protocol's number; kafkajs exports it in a way that ESM does not see. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum exists as a type only
const topicResource = 2 as ConfigResourceTypes.TOPIC
/** Kafka's 1 MiB is less than one block of a large batch. */
const blockBytesMax = 16 * 1024 * 1024
const adminCallTimeoutMs = 15_000
const usableTimeoutMs = 10_000
const leaderDelays = { firstMs: 50, longestMs: 50 }
const replicasWanted = 3
const inSyncWanted = 2
const dayMs = 86_400_000
/** Kafka deletes older events, stored or not: a writer may be down for so long. Unlimited retention would fill the disks. */
const retentionDays = 30
/** Kafka's own default; a writer that is down for longer does not go unnoticed. */
const retentionDaysWanted = 7

export interface EnsureTopicsOptions {
  /** Partitions of new topics; existing topics are left as they are. Default 8. */
  partitions?: number
  logger?: Pick<Logger, 'debug' | 'warn'>
}

/**
 * Creates `<topic>` and `<topic>.dead` of a `kafka:` URL where they are missing, with `min(3, brokers)` replicas; with three,
 * a write needs two in-sync replicas. A replica that lags never becomes leader. Events are kept for 30 days whatever they
 * take, dead letters for 365. Returns the names of the new topics. Throws when Kafka can't be reached within 15 s or refuses.
 */
export async function ensureTopics(url: string, options: EnsureTopicsOptions = {}): Promise<string[]> {
  const { topic } = parseKafkaUrl(url)
  return withAdmin(url, options.logger ?? silent, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const missing = [topic, `${topic}.dead`].filter((name) => !existing.has(name))
    if (missing.length === 0) return []
    const { brokers } = await admin.describeCluster()
    const replicationFactor = Math.min(replicasWanted, brokers.length)
    const configEntries = [
      { name: 'max.message.bytes', value: String(blockBytesMax) },
      { name: 'unclean.leader.election.enable', value: 'false' },
      // Explicit, because a cluster may have other defaults.
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'retention.bytes', value: '-1' },
      ...(replicationFactor === replicasWanted ? [{ name: 'min.insync.replicas', value: String(inSyncWanted) }] : []),
    ]
    const retentionDaysOf = (name: string) => (name === topic ? retentionDays : deadLetterDays)
    // The call returns false when another migration was faster.
    await admin.createTopics({
      topics: missing.map((name) => ({
        topic: name,
        numPartitions: options.partitions ?? 8,
        replicationFactor,
        configEntries: [...configEntries, { name: 'retention.ms', value: String(retentionDaysOf(name) * dayMs) }],
      })),
      // kafkajs's own wait fails on a topic that is not known yet, which the next metadata may contain.
      waitForLeaders: false,
    })
    // A new topic refuses writes until the leaders of all partitions respond.
    for (const name of missing) {
      await retry(() => admin.fetchTopicOffsets(name), { delays: leaderDelays, timeoutMs: usableTimeoutMs })
    }
    return missing
  })
}

/**
 * Reasons why an acknowledged event could still be lost in this cluster, as an event or as a dead letter, one sentence each;
 * empty for three replicas, two of them in sync, no unclean election and at least a week of retention (a year for dead
 * letters), and for `file:`. Rejects while Kafka can't be reached.
 */
export async function describeDurability(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'> = silent,
): Promise<string[]> {
  if (!url.startsWith('kafka:')) return []
  const { topic } = parseKafkaUrl(url)
  return withAdmin(url, logger, async (admin) => {
    const existing = await admin.listTopics()
    const risks: string[] = []
    for (const name of [topic, `${topic}.dead`]) {
      const daysWanted = name === topic ? retentionDaysWanted : deadLetterDays
      if (existing.includes(name)) risks.push(...(await describeTopic(admin, name, daysWanted)))
      else risks.push(`Topic ${name} is missing: "npm run migrate" creates it`)
    }
    return risks
  })
}

async function describeTopic(admin: Admin, topic: string, retentionDaysMin: number): Promise<string[]> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [
      {
        type: topicResource,
        name: topic,
        configNames: [
          'min.insync.replicas',
          'unclean.leader.election.enable',
          'retention.ms',
          'retention.bytes',
          'cleanup.policy',
        ],
      },
    ],
  })
  const entries = resources.flatMap(({ configEntries }) => configEntries)
  const replicas = Math.min(...topics.flatMap(({ partitions }) => partitions.map(({ replicas }) => replicas.length)))
  const settings = new Map(entries.map(({ configName, configValue }) => [configName, configValue]))
  return findRisks(replicas, settings, retentionDaysMin).map((risk) => `Topic ${topic} has ${risk}`)
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
  const policy = settings.get('cleanup.policy') ?? ''
  if (policy.includes('compact')) {
    found.push(`cleanup.policy=${policy}: compaction deletes events, stored or not`)
  }
  return found
}

async function withAdmin<T>(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'>,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const address = parseKafkaUrl(url)
  const retry = { retries: 5, initialRetryTime: 200, maxRetryTime: 1000 }
  const admin = createKafkaAdmin(() =>
    createKafkaClient({
      address,
      logger,
      forward: forwardKafkaLogs(logger),
      clientId: 'sluice-migrate',
      requestTimeoutMs: 5000,
      retry,
    }),
  )
  try {
    return await admin.use(work, adminCallTimeoutMs)
  } catch (error) {
    throw new Error(`Kafka at ${address.brokers.join(', ')}: ${describeKafkaError(error)}`, { cause: error })
  } finally {
    await admin.close()
  }
}
