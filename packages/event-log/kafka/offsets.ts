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
  const [bounds, committed] = await Promise.all([admin.fetchTopicOffsets(topic), committedOffsets(admin, group, topic)])
  return new Map(
    bounds.map(({ partition, low, high }) => [
      partition,
      { committed: committed.get(partition), low: BigInt(low), high: BigInt(high) },
    ]),
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
  const known = await committedOffsets(admin, to, topic)
  const offsets = await committedOffsets(admin, from, topic)
  if (known.size > 0 || offsets.size === 0) return
  await storeOffsets(admin, { groupId: to, topic, offsets })
}

/**
 * Sets the committed offsets of a group without members; they may decrease. Throws when Kafka did not store all of
 * them.
 */
export async function storeOffsets(
  admin: Admin,
  { groupId, topic, offsets }: { groupId: string; topic: string; offsets: ReadonlyMap<number, bigint> },
): Promise<void> {
  const partitions = [...offsets].map(([partition, offset]) => ({ partition, offset: String(offset) }))
  await admin.setOffsets({ groupId, topic, partitions })
  // kafkajs joins the group, commits when it leaves, and does not report a failure of that commit.
  const stored = await committedOffsets(admin, groupId, topic)
  const differing = [...offsets].filter(([partition, offset]) => stored.get(partition) !== offset)
  if (differing.length > 0) {
    throw new Error(
      `Kafka did not accept the committed offsets of ${differing.length} partitions of ${topic}. Run the command again.`,
    )
  }
}

/** A group's committed offsets, by partition; without the partitions where it has committed nothing. */
async function committedOffsets(admin: Admin, groupId: string, topic: string): Promise<Map<number, bigint>> {
  const topics = await admin.fetchOffsets({ groupId, topics: [topic] })
  const offsets = topics.flatMap(({ partitions }) => partitions)
  return new Map(
    offsets.map(({ partition, offset }) => [partition, BigInt(offset)] as const).filter(([, offset]) => offset >= 0n),
  )
}
