import type { Admin } from 'kafkajs'

/** A group's committed offset in one partition and the partition's bounds. */
export interface PartitionOffsets {
  /** Undefined for a group that has committed nothing there. */
  committed: bigint | undefined
  /** Offset of the oldest record kept. */
  low: bigint
  /** The offset after the newest record. */
  high: bigint
}

/**
 * A group's name in Kafka. It contains the topic, because groups in Kafka are not bound to a topic: kafkajs would
 * assign partitions of this topic to members that read another topic.
 */
export function kafkaGroup(topic: string, group: string): string {
  return `${topic}.${group}`
}

/** Requests a group's committed offsets and the bounds of all partitions, by partition. */
export async function fetchOffsets(admin: Admin, group: string, topic: string): Promise<Map<number, PartitionOffsets>> {
  const [bounds, topics] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchOffsets({ groupId: group, topics: [topic] }),
  ])
  const committed = new Map(
    topics.flatMap(({ partitions }) => partitions).map(({ partition, offset }) => [partition, BigInt(offset)]),
  )
  return new Map(
    bounds.map(({ partition, low, high }) => {
      const offset = committed.get(partition)
      const known = offset !== undefined && offset >= 0n ? offset : undefined
      return [partition, { committed: known, low: BigInt(low), high: BigInt(high) }]
    }),
  )
}

/** The offset at which a claim starts: the committed offset, or the oldest one if the partition no longer has it. */
export function startOffset({ committed, low, high }: PartitionOffsets): bigint {
  return committed === undefined || committed < low || committed > high ? low : committed
}

/**
 * Commits the offsets of the group `from` for the group `to`, unless `to` has committed offsets. Kafka deletes the
 * offsets of `from` after `offsets.retention.minutes`.
 */
export async function copyCommittedOffsets(admin: Admin, topic: string, from: string, to: string): Promise<void> {
  const known = await committedOffsets(admin, topic, to)
  const offsets = await committedOffsets(admin, topic, from)
  if (known.length > 0 || offsets.length === 0) return
  await admin.setOffsets({ groupId: to, topic, partitions: offsets })
  // kafkajs joins the group, commits when it leaves, and does not report a failure of that commit.
  const copied = await committedOffsets(admin, topic, to)
  const copiedOffsets = new Map(copied.map(({ partition, offset }) => [partition, offset]))
  if (offsets.some(({ partition, offset }) => copiedOffsets.get(partition) !== offset)) {
    throw new Error(`the committed offsets of the group ${from} could not be copied to ${to}`)
  }
}

async function committedOffsets(
  admin: Admin,
  topic: string,
  groupId: string,
): Promise<{ partition: number; offset: string }[]> {
  const topics = await admin.fetchOffsets({ groupId, topics: [topic] })
  return topics
    .flatMap(({ partitions }) => partitions)
    .filter(({ offset }) => BigInt(offset) >= 0n)
    .map(({ partition, offset }) => ({ partition, offset }))
}
