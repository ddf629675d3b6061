import type { ClaimSet } from '../consumer/claim-set.ts'

/** A consumer of the group. */
export interface Member {
  readonly claims: ClaimSet
  /** Begins a claim at the group's committed offset. */
  begin(partition: number): void
}

/** The members of one consumer group. All of them are in this process. */
export interface Group {
  /**
   * Gives the new member its share of the partitions. Claims on partitions that move are lost at once, and the new
   * owners repeat their unfinished work.
   */
  join(member: Member): void
  /** Begins the member's departure. Until `leave`, no partition moves. */
  startLeaving(member: Member): void
  /** Removes the member and gives its partitions to the others. */
  leave(member: Member): void
}

/** A group without members, for a log of this many partitions. */
export function createGroup(partitions: number): Group {
  const members: Member[] = []
  const leavingMembers = new Set<Member>()
  let owners: (Member | undefined)[] = Array.from({ length: partitions }, () => undefined)

  const rebalance = () => {
    // No partition moves while a leaving member finishes its batches. Its `leave` calls this function again.
    if (leavingMembers.size > 0) return
    const next = assignPartitions(owners, members)
    for (const [partition, owner] of owners.entries()) {
      if (owner !== next[partition]) owner?.claims.lose(partition, 'the partition went to another member')
    }
    const before = owners
    owners = next
    for (const [partition, owner] of next.entries()) {
      if (owner !== before[partition]) owner?.begin(partition)
    }
  }

  return {
    join(member) {
      members.push(member)
      rebalance()
    },
    startLeaving(member) {
      if (members.includes(member)) leavingMembers.add(member)
    },
    leave(member) {
      leavingMembers.delete(member)
      const index = members.indexOf(member)
      if (index === -1) return
      members.splice(index, 1)
      owners = owners.map((owner) => (owner === member ? undefined : owner))
      rebalance()
    },
  }
}

/**
 * The new owner of each partition. The members' shares differ by at most one, and as few partitions as possible move.
 */
function assignPartitions<M>(owners: readonly (M | undefined)[], members: readonly M[]): (M | undefined)[] {
  const capacity = new Map(
    members.map((member, index) => {
      const extra = index < owners.length % members.length ? 1 : 0
      return [member, Math.floor(owners.length / members.length) + extra]
    }),
  )
  const take = (member: M | undefined): M | undefined => {
    const left = member === undefined ? 0 : (capacity.get(member) ?? 0)
    if (member === undefined || left === 0) return undefined
    capacity.set(member, left - 1)
    return member
  }
  const kept = owners.map(take)
  return kept.map((owner) => owner ?? take(members.find((member) => (capacity.get(member) ?? 0) > 0)))
}
