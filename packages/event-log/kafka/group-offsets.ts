import { silentLogger } from '@sluice/runtime/silent-logger'
import { fetchOffsets, kafkaGroup, type PartitionOffsets, storeOffsets } from './offsets.ts'
import { parseKafkaUrl } from './url.ts'
import { withKafkaAdmin } from './with-admin.ts'

/** The state of a group, which a command must know before it moves the group. */
export interface GroupState {
  /** Committed offsets and bounds, by partition. */
  partitions: ReadonlyMap<number, PartitionOffsets>
  /** Whether the group has members. Its committed offsets can't be set then. */
  hasMembers: boolean
}

/** The state of a consumer group on the topic of a `kafka:` URL. Throws when Kafka can't be reached within 15 s. */
export function readGroupState(url: string, group: string): Promise<GroupState> {
  const { topic } = parseKafkaUrl(url)
  const groupId = kafkaGroup(topic, group)
  return withKafkaAdmin(url, silentLogger, async (admin) => {
    const { groups } = await admin.describeGroups([groupId])
    return {
      partitions: await fetchOffsets(admin, groupId, topic),
      hasMembers: groups.some(({ members }) => members.length > 0),
    }
  })
}

/**
 * Sets the committed offsets of a group without members; they may decrease. Throws when Kafka did not store all of
 * them.
 */
export async function setGroupOffsets(url: string, group: string, offsets: ReadonlyMap<number, bigint>): Promise<void> {
  const { topic } = parseKafkaUrl(url)
  const groupId = kafkaGroup(topic, group)
  await withKafkaAdmin(url, silentLogger, (admin) => storeOffsets(admin, { groupId, topic, offsets }))
}
