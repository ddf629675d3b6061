import type { Cluster } from './cluster.ts'
import { count, type Journal, tell, Violation } from './journal.ts'
import { isCopy, type Row, rowText } from './rows.ts'

/** Blocks from offset `from` up to, but not including, `end`. */
export interface Range {
  partition: number
  from: number
  end: number
  /** How often its token was renewed. */
  renewals: number
}

/**
 * What a commit says about the next insert: its range, or that none is sent before the next commit; undefined where
 * nothing was committed.
 */
export type Intent = Range | 'idle' | undefined

export type Block = readonly Row[]

/** Partitions that share a lock: two of the topic of live events, and one of the backfill topic. */
export const partitionNames = ['live-0', 'live-4', 'old-0'] as const

/** Kafka: a log, and the consumer group of the writers. Each method is one step of the broker. */
export class Group {
  generation = 0
  members: number[] = []
  /** Position of the group in each partition. */
  positions: number[] = partitionNames.map(() => 0)
  /** Accepted rows that must be stored: those of the log, and the committed rows of a deleted log. */
  readonly accepted: Row[] = []
  /** Number of blocks of each partition that were published so far. */
  published: number[] = partitionNames.map(() => 0)
  #owners: (number | undefined)[] = []
  #intents: Intent[]
  #log: readonly (readonly Block[])[]
  readonly #units: readonly (readonly number[])[]
  readonly #cluster: Cluster
  readonly #journal: Journal

  /** `units`: partitions that are assigned together. */
  constructor(
    { log, units }: { log: readonly (readonly Block[])[]; units: readonly (readonly number[])[] },
    cluster: Cluster,
    journal: Journal,
  ) {
    this.#log = log
    this.#units = units
    this.#intents = units.map(() => 'idle')
    this.#cluster = cluster
    this.#journal = journal
  }

  unitsOf(writer: number): number[] {
    return [...this.#units.keys()].filter((unit) => this.#owners[unit] === writer)
  }

  partitionsOf(unit: number): readonly number[] {
    return this.#units[unit] ?? []
  }

  intentOf(unit: number): Intent {
    return this.#intents[unit]
  }

  blocks(partition: number, from: number, end: number): Row[] {
    return (this.#log[partition] ?? []).slice(from, Math.min(end, this.published[partition] ?? 0)).flat()
  }

  /** The rows of all blocks, published or not. */
  allRows(): Row[] {
    return this.#log.flat(2)
  }

  join(writer: number, rotation: number): void {
    if (!this.members.includes(writer)) {
      this.members.push(writer)
      this.#rebalance(rotation)
    }
  }

  /** The session of a member ends, and the member does not know it. */
  expire(writer: number, rotation: number): boolean {
    if (!this.members.includes(writer)) return false
    this.members = this.members.filter((member) => member !== writer)
    this.#rebalance(rotation)
    return true
  }

  /** Returns whether the commit was accepted, that is, whether the group still has the generation of the sender. */
  commit(writer: { index: number; generation: number }, unit: number, { positions, intent }: Commit): boolean {
    if (writer.generation !== this.generation || this.#owners[unit] !== writer.index) {
      count(this.#journal, 'commit refused')
      return false
    }
    for (const [partition, position] of positions) {
      for (const row of this.blocks(partition, this.positions[partition] ?? 0, position)) this.#checkStored(row)
      this.positions[partition] = position
    }
    this.#intents[unit] = intent
    return true
  }

  publish(partition: number): boolean {
    const published = this.published[partition] ?? 0
    if (published >= (this.#log[partition]?.length ?? 0)) return false
    this.published[partition] = published + 1
    return true
  }

  isPublished(): boolean {
    return this.#log.every((blocks, partition) => this.published[partition] === blocks.length)
  }

  isConsumed(): boolean {
    return this.#log.every((blocks, partition) => this.positions[partition] === blocks.length)
  }

  /** An operator moves a group without members back to the start. */
  reset(): void {
    this.positions = this.positions.map(() => 0)
    this.#intents = this.#intents.map(() => undefined)
    count(this.#journal, 'group reset')
    tell(this.#journal, () => 'the group is reset to the start of the log')
  }

  /** The topics are deleted with all blocks and positions, and created again under their names. */
  recreate(log: readonly (readonly Block[])[]): void {
    for (const [partition, position] of this.positions.entries())
      this.accepted.push(...this.blocks(partition, 0, position))
    this.#log = log
    this.positions = this.positions.map(() => 0)
    this.published = this.published.map(() => 0)
    this.#intents = this.#intents.map(() => undefined)
    count(this.#journal, 'log recreated')
    tell(this.#journal, () => 'the topics are deleted and created again')
  }

  #rebalance(rotation: number): void {
    this.generation += 1
    const { members } = this
    this.#owners = this.#units.map((_, unit) => members[(unit + rotation) % members.length])
  }

  #checkStored(row: Row): void {
    const isStored = this.#cluster.registered.some(
      ({ state, rows }) => state === 'stored' && rows.some((stored) => isCopy(row, stored)),
    )
    if (!isStored) throw new Violation(`the position moved past ${rowText(row)}, which no quorum has`)
  }
}

interface Commit {
  positions: readonly (readonly [partition: number, position: number])[]
  intent: Intent
}
