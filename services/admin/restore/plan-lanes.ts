import { type GroupState, readGroupState } from '@sluice/event-log/kafka/group-offsets'
import { backfillUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { internalMessage } from '@sluice/runtime/errors'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { sleep } from '@sluice/runtime/sleep'
import type { LanePositions, Manifest } from '../backup/manifest.ts'

/** Longer than the session of a writer (packages/event-log/kafka/kafka-log.ts). */
const sessionEndMs = 20_000
const memberPollMs = 1_000
/**
 * A backup reads the committed offsets some seconds after its time, `manifest.at`, and the clocks of Postgres and of
 * Kafka's brokers may differ. Records that were appended up to this much later may therefore be below these offsets.
 */
const positionsReadMsMax = 300_000

/** Where the writers are to continue in a lane's topic after a restore. */
export interface LanePlan {
  /** URL of the lane's topic. */
  url: string
  offsets: Map<number, bigint>
  /** Events since the backup that the log no longer holds, one sentence each. */
  losses: string[]
}

/** Compares the log with the backup's positions. Throws while writers run, and when the log has no topic. */
export async function planLanes(logUrl: string, { at, lanes, clickHouse }: Manifest): Promise<LanePlan[]> {
  const group = writerGroup(clickHouse.storeId)
  const planned = await Promise.all(
    [
      { url: logUrl, positions: lanes.live },
      { url: backfillUrl(logUrl), positions: lanes.backfill },
    ].map(async ({ url, positions }) => {
      const log = await openEventLog(url, { logger: silentLogger })
      try {
        // The call also waits for a broker that has had no group yet.
        await log.committedOffsets(group).catch(explainMissingTopic)
        // Read before the low and high offsets: otherwise records that Kafka deletes in between could hide that the
        // oldest records are newer than the backup.
        const afterBackup = await log.offsetsForTime(at + positionsReadMsMax)
        const state = await readGroupWithoutMembers(url, group)
        return { url, state, ...planLane({ logId: await log.id(), state, afterBackup }, positions) }
      } finally {
        await log.close()
      }
    }),
  )
  // If one partition shows that the topics were created again, the backup's offsets mean nothing in the other
  // partitions either. The writers then read all records, and store nothing twice.
  if (!planned.some(({ isNew }) => isNew)) return planned
  return planned.map(({ url, state, losses }) => ({ url, losses, offsets: firstOffsets(state) }))
}

function firstOffsets({ partitions }: GroupState): Map<number, bigint> {
  return new Map([...partitions].map(([partition, { low }]) => [partition, low]))
}

/** Kafka counts killed processes as members of the group until their sessions end. */
async function readGroupWithoutMembers(url: string, group: string): Promise<GroupState> {
  const until = performance.now() + sessionEndMs
  for (;;) {
    const state = await readGroupState(url, group)
    if (!state.hasMembers) return state
    if (performance.now() > until) {
      throw new Error('Writers are running: stop them, the workers and the gateways before a restore.')
    }
    await sleep(memberPollMs)
  }
}

function explainMissingTopic(error: unknown): never {
  const reason = internalMessage(error)
  if (!reason.includes('has no topic')) throw error
  throw new Error(
    `${reason.replace(/:.*/, '')}, so the events since the backup are lost. If SLUICE_LOG_URL is right, add --accept-loss, ` +
      'which makes new topics.',
    { cause: error },
  )
}

interface PresentLog {
  logId: string
  state: GroupState
  /** The offset of the oldest record that was clearly appended after the backup, by partition. */
  afterBackup: readonly bigint[]
}

/**
 * Compares the backup's offsets with the log. A topic that was deleted and created again has the same log id. It is
 * recognised in two ways: it ends before the backup's offset, or its oldest record is below that offset although the
 * record was appended after the backup.
 */
function planLane({ logId, state, afterBackup }: PresentLog, { logId: knownId, next }: LanePositions) {
  const { partitions } = state
  const offsets = firstOffsets(state)
  if (logId !== knownId) {
    const loss =
      `SLUICE_LOG_URL leads to the log ${logId}, the backup is of ${knownId}: events that were accepted after the backup ` +
      'are not in it.'
    return { offsets, losses: [loss], isNew: true }
  }
  const losses: string[] = []
  let isNew = false
  for (const [partition, text] of next.entries()) {
    const [position, bounds] = [BigInt(text), partitions.get(partition)]
    if (bounds === undefined || position > bounds.high) {
      isNew = true
      losses.push(`Partition ${partition} of ${logId} ends before the backup: the topic was created again.`)
    } else if (position > bounds.low && (afterBackup[partition] ?? bounds.high) <= bounds.low) {
      isNew = true
      losses.push(`Partition ${partition} of ${logId} begins after the backup: the topic was created again.`)
    } else if (position < bounds.low) {
      losses.push(`Partition ${partition} of ${logId}: ${bounds.low - position} records since the backup are deleted.`)
    } else {
      offsets.set(partition, position)
    }
  }
  return { offsets, losses, isNew }
}
