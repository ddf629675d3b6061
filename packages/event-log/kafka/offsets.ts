import type { Admin } from 'kafkajs'

/** A group's position in one partition and the partition's bounds. */
export interface PartitionOffsets {
  /** Undefined for a group that has committed nothing there. */
  committed: bigint | undefined
  /** Offset of the oldest record kept. */
  low: bigint
  /** The offset after the newest record. */
  high: bigint
}

/**
 * A group's name in Kafka. It holds the topic, because Kafka's groups span topics: kafkajs would give partitions of
 * this topic to members that read another one.
 */
export function kafkaGroup(topic: string, group: string): string {
  return `${topic}.${group}`
}

/** Requests a group's positions and the bounds of all partitions, by partition. */
export async function fetchOffsets(admin: Admin, group: string, topic: string): Promise<Map<number, PartitionOffsets>> {
  const [bounds, positions] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchOffsets({ groupId: group, topics: [topic] }),
  ])
  const committed = new Map(
    positions.flatMap(({ partitions }) => partitions).map(({ partition, offset }) => [partition, BigInt(offset)]),
  )
  return new Map(
    bounds.map(({ partition, low, high }) => {
      const position = committed.get(partition)
      const known = position !== undefined && position >= 0n ? position : undefined
      return [partition, { committed: known, low: BigInt(low), high: BigInt(high) }]
    }),
  )
}

/** The offset at which a claim starts: the committed position, or the oldest record when that position is not kept. */
export function startOffset({ committed, low, high }: PartitionOffsets): bigint {
  return committed === undefined || committed < low || committed > high ? low : committed
}

/**
 * Commits the positions of the group `from` for the group `to`, unless `to` has committed any. Kafka forgets `from` by
 * itself after its `offsets.retention.minutes`.
 */
export async function copyPositions(admin: Admin, topic: string, from: string, to: string): Promise<void> {
  const known = await committedPositions(admin, topic, to)
  const positions = await committedPositions(admin, topic, from)
  if (known.length > 0 || positions.length === 0) return
  await admin.setOffsets({ groupId: to, topic, partitions: positions })
  // kafkajs joins the group, commits as it leaves, and reports no failure of that commit.
  const copied = await committedPositions(admin, topic, to)
  const offsets = new Map(copied.map(({ partition, offset }) => [partition, offset]))
  if (positions.some(({ partition, offset }) => offsets.get(partition) !== offset)) {
    throw new Error(`the positions of the group ${from} could not be copied to ${to}`)
  }
}

async function committedPositions(
  admin: Admin,
  topic: string,
  groupId: string,
): Promise<{ partition: number; offset: string }[]> {
  const positions = await admin.fetchOffsets({ groupId, topics: [topic] })
  return positions
    .flatMap(({ partitions }) => partitions)
    .filter(({ offset }) => BigInt(offset) >= 0n)
    .map(({ partition, offset }) => ({ partition, offset }))
}
