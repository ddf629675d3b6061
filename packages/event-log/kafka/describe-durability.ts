import type { Admin } from 'kafkajs'
import { unitMs } from '@sluice/runtime/durations'
import type { Logger } from '@sluice/runtime/logger'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { deadLetterDays } from '../dead-letters.ts'
import { kafkaErrorType } from './client.ts'
import { describeTopic, inSyncWanted, replicasWanted, siblingTopics, topicSettings } from './topic-settings.ts'
import { parseKafkaUrl } from './url.ts'
import { withKafkaAdmin } from './with-admin.ts'

/** Kafka's own default. A writer is never down for longer without anybody noticing. */
const retentionDaysWanted = 7
/** The values of `compression.type` with which kafkajs can read the records; Redpanda calls `uncompressed` `none`. */
const readableCodecs = ['producer', 'uncompressed', 'none', 'gzip', 'zstd']

/**
 * Reasons why an acknowledged event or dead letter could still be lost in this cluster, one sentence each. Empty for
 * three replicas, two of them in sync, no unclean election, at least a week of retention (a year for dead letters) and
 * records that writers can decompress; also empty for `file:`. If the user may not read a topic's settings, this is one
 * of the reasons. Rejects while Kafka can't be reached.
 */
export async function describeDurability(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'> = silentLogger,
): Promise<string[]> {
  if (!url.startsWith('kafka:')) return []
  const { topic } = parseKafkaUrl(url)
  const { backfill, dead } = siblingTopics(topic)
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
        `Topic ${topic} has ${partitions[0]} partitions and ${backfill} has ${partitions[1]}: until ` +
          '"npm run migrate" makes them equal, old events delay new ones',
      )
    }
    return risks
  })
}

/** The risks of one topic, worded as continuations of "Topic … has". */
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
  if (retentionMs >= 0 && retentionMs < retentionDaysMin * unitMs.d) {
    found.push(`retention.ms=${retentionMs}: below ${retentionDaysMin} days, events that wait for longer are lost`)
  }
  const retentionBytes = Number(settings.get('retention.bytes'))
  if (retentionBytes >= 0) {
    found.push(`retention.bytes=${retentionBytes}: events beyond it are deleted, stored or not`)
  }
  const codec = settings.get('compression.type') ?? 'producer'
  if (!readableCodecs.includes(codec)) {
    found.push(
      `compression.type=${codec}: brokers recompress events, and writers can't read this codec. Set it to uncompressed`,
    )
  }
  const policy = settings.get('cleanup.policy') ?? ''
  if (policy.includes('compact')) {
    found.push(`cleanup.policy=${policy}: compaction deletes events, stored or not`)
  }
  return found
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
