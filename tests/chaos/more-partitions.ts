import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { parseKafkaUrl } from '@sluice/event-log/kafka/url'
import { withKafkaAdmin } from '@sluice/event-log/kafka/with-admin'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { silentLogger } from '@sluice/runtime/silent-logger'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface MorePartitionsOptions {
  seed: number
  events: number
  say: Say
}

/**
 * Doubles the number of partitions of the log twice, from 4 to 16, with the steps of
 * docs/operations.md#more-partitions, while events are sent, many of them twice. Every event that was answered 202 must
 * be stored once, and every partition must be used.
 */
export async function morePartitions(rig: Rig, { seed, events, say }: MorePartitionsOptions): Promise<Outcome> {
  const { topic } = parseKafkaUrl(rig.logUrl)

  async function growTo(count: number): Promise<void> {
    await withKafkaAdmin(rig.logUrl, silentLogger, (admin) =>
      admin.createPartitions({ topicPartitions: [{ topic, count }] }),
    )
    // As `npm run migrate` does, for the backfill topic.
    await ensureTopics(rig.logUrl)
    for (const gateway of rig.gateways) {
      await gateway.stop()
      await gateway.start()
    }
  }

  const outcome = await underLoad(rig, {
    load: { seed, events, eventsPerSecond: 1_000, resendShare: 0.5 },
    faults: [
      { name: '8 partitions', at: 0.2, run: () => growTo(8) },
      { name: '16 partitions', at: 0.6, run: () => growTo(16) },
    ],
    copies: true,
    say,
  })
  const ends = await endsOf(rig)
  const unused = ends.flatMap((end, partition) => (end === 0n ? [partition] : []))
  const { figures, problems, details } = outcome
  return {
    figures: { ...figures, partitions: ends.length },
    problems: [
      ...problems,
      ...(ends.length === 16 ? [] : [`the log has ${ends.length} partitions, not 16`]),
      ...(unused.length > 0 ? [`no event was published to the partitions ${unused.join(', ')}`] : []),
    ],
    details,
  }
}

async function endsOf({ logUrl }: Rig): Promise<readonly bigint[]> {
  const log = await openEventLog(logUrl, { logger: silentLogger })
  try {
    return await log.endOffsets()
  } finally {
    await log.close()
  }
}
