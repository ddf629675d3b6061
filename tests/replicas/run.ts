import { Cluster } from './cluster.ts'
import { type Block, Group, partitionNames } from './group.ts'
import { count, type Journal, type Occurrence, tell, Violation } from './journal.ts'
import type { Protocol } from './protocol.ts'
import { type Row, rowText } from './rows.ts'
import { Writer } from './writer.ts'

/**
 * One step of a schedule. Numbers choose writers, replicas and so on, modulo how many there are. A step that is not
 * possible does nothing.
 */
export type Step =
  | { do: 'write'; writer: number; task: number; choice: number }
  | { do: 'serve'; nth: number; losesKeeper: boolean }
  | { do: 'fetch'; replica: number; nth: number }
  | { do: 'work'; writer: number; lagging: readonly boolean[]; choice: number; rounds: number }
  | { do: 'publish'; partition: number }
  | { do: 'pass'; ticks: number }
  | { do: 'forget tokens' }
  | { do: 'join' | 'expire'; writer: number; choice: number }
  | { do: 'heartbeat' | 'lose answer'; writer: number }
  | { do: 'cut' | 'mend'; writer: number; replica: number }
  | { do: 'stop' | 'start' | 'lose disk' | 'lose session' | 'renew session' | 'check parts'; replica: number }
  | { do: 'part' | 'unite'; replica: number; other: number }
  | { do: 'reset group' | 'recreate log'; choice: number }

export interface Schedule {
  /** Blocks of each partition. */
  log: readonly (readonly Block[])[]
  /** Blocks of each partition after the topics were created again. */
  nextLog: readonly (readonly Block[])[]
  /** Blocks of each partition that are there at the start. */
  published: number
  steps: readonly Step[]
}

export interface Result {
  /** The violation; undefined when every event is stored once. */
  violation: string | undefined
  counts: ReadonlyMap<Occurrence, number>
  steps: readonly string[]
}

const writersCount = 3
/**
 * After the schedule, everything works without faults for this number of rounds. Events that are not stored then count
 * as lost.
 */
const healingRounds = 800
/**
 * Replicas notice only after this time that Keeper does not know a part. An owner without an intent has stored something
 * before.
 */
const partCheckRounds = 200

/** Follows a schedule, lets everything heal, and compares what is stored with what was accepted. */
export function run(protocol: Protocol, schedule: Schedule, { tells = false } = {}): Result {
  const journal: Journal = { counts: new Map(), steps: tells ? [] : undefined }
  const world = new World(protocol, schedule, journal)
  let violation: string | undefined
  try {
    for (const step of schedule.steps) world.take(step)
    world.heal()
    world.check()
  } catch (error) {
    if (!(error instanceof Violation)) throw error
    violation = error.message
  }
  return { violation, counts: journal.counts, steps: journal.steps ?? [] }
}

class World {
  readonly #cluster: Cluster
  readonly #group: Group
  readonly #writers: readonly Writer[]
  readonly #schedule: Schedule
  readonly #journal: Journal
  /** Rows of a deleted log that were not committed: they may be stored or not. */
  readonly #optional: Row[] = []
  #wasRecreated = false
  /** A second lost disk may be the last one with an event, which no protocol can help. */
  #wasDiskLost = false

  constructor(protocol: Protocol, schedule: Schedule, journal: Journal) {
    const partitions = [...partitionNames.keys()]
    const units = protocol.oneOwner ? [partitions] : partitions.map((partition) => [partition])
    this.#cluster = new Cluster(protocol, journal)
    this.#group = new Group({ log: schedule.log, units }, this.#cluster, journal)
    const deps = { cluster: this.#cluster, group: this.#group, protocol, journal }
    this.#writers = Array.from({ length: writersCount }, (_, index) => new Writer(index, deps))
    this.#schedule = schedule
    this.#journal = journal
    this.#publish(schedule.published)
  }

  take(step: Step): void {
    this.#cluster.now += 1
    switch (step.do) {
      case 'write':
        this.#writer(step.writer).step(step.task, step.choice)
        break
      case 'serve':
        this.#serve(step.nth, step.losesKeeper)
        break
      case 'fetch':
        this.#cluster.fetch(this.#cluster.replica(step.replica), step.nth)
        break
      case 'work':
        this.#work(step)
        break
      case 'publish':
        this.#group.publish(step.partition % partitionNames.length)
        break
      case 'pass':
        this.#cluster.now += step.ticks
        tell(this.#journal, () => `${step.ticks} ticks pass`)
        break
      case 'forget tokens':
        this.#cluster.forgetTokens()
        break
      case 'reset group':
        this.#expireAll(step.choice)
        this.#group.reset()
        break
      case 'recreate log':
        this.#expireAll(step.choice)
        this.#recreateLog()
        break
      case 'join':
      case 'expire':
      case 'heartbeat':
      case 'lose answer':
      case 'cut':
      case 'mend':
        this.#happenToWriter(step, this.#writer(step.writer))
        break
      case 'stop':
      case 'start':
      case 'lose disk':
      case 'lose session':
      case 'renew session':
      case 'check parts':
      case 'part':
      case 'unite':
        this.#happenToReplica(step)
    }
  }

  heal(): void {
    tell(this.#journal, () => '— everything works again —')
    this.#publish(Number.POSITIVE_INFINITY)
    this.#cluster.heal()
    for (const replica of this.#cluster.replicas) for (const writer of this.#writers) writer.mend(replica)
    for (let round = 0; round < healingRounds; round += 1) {
      this.#cluster.now += 1
      if (this.#healOnce(round) || !this.#group.isConsumed()) continue
      for (const replica of this.#cluster.replicas) this.#cluster.checkParts(replica)
      return
    }
    throw new Violation('the writers never store the rest of the log')
  }

  /** Counts the copies of each event on each replica, before any merge. */
  check(): void {
    const { accepted } = this.#group
    const mustBeStored = new Set([...accepted, ...this.#group.allRows()].map(({ event }) => event))
    const mayBeStored = new Set([...mustBeStored, ...this.#optional.map(({ event }) => event)])
    for (const replica of this.#cluster.replicas) {
      const rows = this.#cluster.shownRows(replica)
      for (const event of mayBeStored) {
        const stored = rows.filter((row) => row.event === event)
        if (stored.length === 0 && !mustBeStored.has(event)) continue
        if (stored.length === 0) throw new Violation(`${event} is lost on ${replica.name}`)
        if (stored.length > 1)
          throw new Violation(`${replica.name} has ${stored.length} times ${event}: ${stored.map(rowText).join(' ')}`)
      }
    }
  }

  #writer(index: number): Writer {
    const writer = this.#writers[index % this.#writers.length]
    if (writer === undefined) throw new Error(`there is no writer ${index}`)
    return writer
  }

  #publish(blocks: number): void {
    for (const partition of partitionNames.keys()) {
      for (let n = 0; n < blocks && this.#group.publish(partition); n += 1);
    }
  }

  #serve(nth: number, losesKeeper = false): boolean {
    const { inserts } = this.#cluster
    const insert = inserts[nth % inserts.length]
    if (insert === undefined) return false
    const isLate = insert.generation !== this.#group.generation
    const before = this.#cluster.registered.length
    const hasMoved = this.#cluster.serve(insert, { losesKeeper })
    if (isLate && this.#cluster.registered.length > before) count(this.#journal, 'late insert')
    return hasMoved
  }

  /** A writer, the servers and the replicas do their normal work, except replicas that lag behind. */
  #work({ writer: index, lagging, choice, rounds }: Extract<Step, { do: 'work' }>): void {
    const writer = this.#writer(index)
    for (let round = 0; round < rounds; round += 1) {
      this.#cluster.now += 1
      if (!writer.isLate()) writer.join(choice)
      writer.stepAll(choice)
      for (const nth of this.#cluster.inserts.keys()) this.#serve(nth)
      for (const replica of this.#cluster.replicas) if (lagging[replica.index] !== true) this.#cluster.fetch(replica, 0)
    }
  }

  #expire(writer: Writer, choice: number): void {
    if (this.#group.expire(writer.index, choice))
      tell(this.#journal, () => `${writer.name} is frozen: its session with the group ends`)
  }

  /** In Kafka, the offsets of a group with members can't be reset: the writers were stopped, or are frozen. */
  #expireAll(choice: number): void {
    for (const writer of this.#writers) this.#expire(writer, choice)
  }

  #recreateLog(): void {
    if (this.#wasRecreated) return
    this.#wasRecreated = true
    this.#optional.push(...this.#group.allRows())
    this.#group.recreate(this.#schedule.nextLog)
    this.#publish(this.#schedule.published)
  }

  #happenToWriter(
    step: Extract<Step, { do: 'join' | 'expire' | 'heartbeat' | 'lose answer' | 'cut' | 'mend' }>,
    writer: Writer,
  ): void {
    switch (step.do) {
      case 'join':
        writer.join(step.choice)
        break
      case 'expire':
        this.#expire(writer, step.choice)
        break
      case 'heartbeat':
        writer.heartbeat()
        break
      case 'lose answer':
        writer.loseAnswer()
        break
      case 'cut':
        writer.cut(this.#cluster.replica(step.replica))
        break
      case 'mend':
        writer.mend(this.#cluster.replica(step.replica))
    }
  }

  #happenToReplica(
    step: Extract<
      Step,
      {
        do: 'stop' | 'start' | 'lose disk' | 'lose session' | 'renew session' | 'check parts' | 'part' | 'unite'
      }
    >,
  ): void {
    const cluster = this.#cluster
    const replica = cluster.replica(step.replica)
    switch (step.do) {
      case 'stop':
        cluster.stop(replica)
        break
      case 'start':
        cluster.start(replica)
        break
      case 'lose disk':
        if (!this.#wasDiskLost) cluster.loseDisk(replica)
        this.#wasDiskLost = true
        break
      case 'lose session':
        cluster.loseSession(replica)
        break
      case 'renew session':
        cluster.renewSession(replica)
        break
      case 'check parts':
        cluster.checkParts(replica)
        break
      case 'part':
      case 'unite':
        cluster.part(replica, cluster.replica(step.other), step.do === 'part')
    }
  }

  /**
   * Late writers act once more before they learn that they have lost their partitions. Returns whether anything
   * changed.
   */
  #healOnce(round: number): boolean {
    let hasMoved = false
    for (const writer of this.#writers) {
      hasMoved = writer.stepAll(round) || hasMoved
      if (round > 2) hasMoved = writer.heartbeat() || hasMoved
    }
    for (const writer of this.#writers) if (!writer.isLate()) hasMoved = writer.join(round) || hasMoved
    for (const nth of this.#cluster.inserts.keys()) hasMoved = this.#serve(nth) || hasMoved
    for (const replica of this.#cluster.replicas) {
      hasMoved = this.#cluster.fetch(replica, 0) || hasMoved
      if (round % partCheckRounds === partCheckRounds - 1) this.#cluster.checkParts(replica)
    }
    return hasMoved
  }
}
