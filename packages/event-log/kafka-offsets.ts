import type { Admin } from 'kafkajs'

/** Where a group stands in one partition. */
export interface PartitionOffsets {
  /** Undefined for a group that has committed nothing there. */
  committed: bigint | undefined
  /** Offset of the oldest record kept. */
  low: bigint
  /** The offset after the newest. */
  high: bigint
}

/**
 * A group's name in Kafka. Its groups know no topics: kafkajs gives partitions to every member, those of another topic
 * included, where nobody would read them.
 */
export function kafkaGroup(topic: string, group: string): string {
  return `${topic}.${group}`
}

/** Asks Kafka for a group's positions and the bounds of all partitions. */
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

/** Where to begin: the committed position, moved to the oldest record when it lies outside of what is kept. */
export function startOffset({ committed, low, high }: PartitionOffsets): bigint {
  return committed === undefined || committed < low || committed > high ? low : committed
}
