import type { ClaimSet } from './claim-set.ts'

/** A consumer as its group sees it. */
export interface Member {
  readonly claims: ClaimSet
  /** Begins a claim at the group's position. */
  begin(partition: number): void
}

/** The members of one consumer group; all live in this process. */
export interface Group {
  /** Gives the new member its share. Claims that move are lost at once: their handlers' work is done again elsewhere. */
  join(member: Member): void
  /** The member takes no new claim and none of its own is moved until it left. */
  leaving(member: Member): void
  /** Gives the member's partitions to the others. */
  leave(member: Member): void
}

export function createGroup(partitions: number): Group {
  const members: Member[] = []
  const leaving = new Set<Member>()
  let owners: (Member | undefined)[] = Array.from({ length: partitions }, () => undefined)

  const rebalance = () => {
    // While a member finishes its batches, everything stays where it is; its leaving brings us here again.
    if (leaving.size > 0) return
    const next = share(owners, members)
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
    leaving(member) {
      if (members.includes(member)) leaving.add(member)
    },
    leave(member) {
      leaving.delete(member)
      const index = members.indexOf(member)
      if (index === -1) return
      members.splice(index, 1)
      owners = owners.map((owner) => (owner === member ? undefined : owner))
      rebalance()
    },
  }
}

/** Equal shares, give or take one, with as few moves as possible. */
export function share<M>(owners: readonly (M | undefined)[], members: readonly M[]): (M | undefined)[] {
  const room = new Map(
    members.map((member, index) => {
      const extra = index < owners.length % members.length ? 1 : 0
      return [member, Math.floor(owners.length / members.length) + extra]
    }),
  )
  const take = (member: M | undefined): M | undefined => {
    const left = member === undefined ? 0 : (room.get(member) ?? 0)
    if (member === undefined || left === 0) return undefined
    room.set(member, left - 1)
    return member
  }
  const kept = owners.map(take)
  return kept.map((owner) => owner ?? take(members.find((member) => (room.get(member) ?? 0) > 0)))
}
