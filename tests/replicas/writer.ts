import type { Cluster, Insert, Replica } from './cluster.ts'
import type { Group, Intent, Range } from './group.ts'
import { count, type Journal, tell } from './journal.ts'
import { type Protocol, runTicks, startTicks } from './protocol.ts'
import { rowsToStore } from './rows.ts'
import { partitionName, partsThatShow, rangeText, type Task, tokenOf } from './task.ts'

interface Deps {
  cluster: Cluster
  group: Group
  protocol: Protocol
  journal: Journal
}

/** A writer. Between any two of its steps it may be frozen for as long as the schedule likes. */
export class Writer {
  readonly index: number
  readonly name: string
  /** The generation of which it believes to be a member; 0 when it is in no group. */
  generation = 0
  /** Replicas that it does not reach. */
  readonly cutOff = new Set<Replica>()
  #tasks: Task[] = []
  #insertsSent = 0
  readonly #cluster: Cluster
  readonly #group: Group
  readonly #protocol: Protocol
  readonly #journal: Journal

  constructor(index: number, { cluster, group, protocol, journal }: Deps) {
    this.index = index
    this.name = ['A', 'B', 'C'][index] ?? `W${index}`
    this.#cluster = cluster
    this.#group = group
    this.#protocol = protocol
    this.#journal = journal
  }

  /** Whether it holds partitions that the group has given away. */
  isLate(): boolean {
    return this.#tasks.length > 0 && this.generation !== this.#group.generation
  }

  isMember(): boolean {
    return this.generation === this.#group.generation && this.#group.members.includes(this.index)
  }

  /** Joins the group, or hears of a new generation, and claims what it is assigned. */
  join(choice: number): boolean {
    if (this.isMember()) return false
    this.#dropTasks()
    this.#group.join(this.index, choice)
    this.generation = this.#group.generation
    this.#tasks = this.#group.unitsOf(this.index).map((unit) => this.#claim(unit, choice))
    const owned = this.#tasks.flatMap(({ unit }) => this.#group.partitionsOf(unit))
    tell(
      this.#journal,
      () =>
        `${this.name} joins: generation ${this.generation}, owns ${owned.map(partitionName).join(' ') || 'nothing'}`,
    )
    return true
  }

  /** Its next heartbeat tells it that it has lost its partitions. */
  heartbeat(): boolean {
    if (!this.isLate()) return false
    this.#dropTasks()
    tell(this.#journal, () => `${this.name} notices that it has lost its partitions`)
    return true
  }

  /** The connection to a replica breaks; requests that were sent may go on. */
  cut(replica: Replica): void {
    this.cutOff.add(replica)
    for (const { insert } of this.#tasks) if (insert?.replica === replica) this.#cutAnswer(insert)
    tell(this.#journal, () => `${this.name} is cut off from ${replica.name}`)
  }

  mend(replica: Replica): void {
    if (this.cutOff.delete(replica)) tell(this.#journal, () => `${this.name} reaches ${replica.name}`)
  }

  /** The answer of a running insert will not arrive. */
  loseAnswer(): boolean {
    const insert = this.#tasks.map((task) => task.insert).find((each) => each !== undefined && !each.isCut)
    if (insert === undefined) return false
    this.#cutAnswer(insert)
    tell(this.#journal, () => `${this.name} will not get the answer to ${insert.name}`)
    return true
  }

  /** Takes the next step of one of its tasks; returns whether there was one to take. */
  step(nth: number, choice: number): boolean {
    const task = this.#tasks[nth % this.#tasks.length]
    if (task === undefined) return false
    const isLate = this.isLate()
    const hasMoved = this.#advance(task, choice)
    if (hasMoved && isLate) count(this.#journal, 'late step')
    return hasMoved
  }

  /** Takes a step of each of its tasks. */
  stepAll(choice: number): boolean {
    let hasMoved = false
    for (const nth of this.#tasks.keys()) hasMoved = this.step(nth, choice) || hasMoved
    return hasMoved
  }

  #claim(unit: number, choice: number): Task {
    const group = this.#group
    const intent = group.intentOf(unit)
    const range = this.#protocol.intent && typeof intent === 'object' ? intent : undefined
    const mustWait = this.#protocol.intent && this.#protocol.waitsWithoutIntent && intent === undefined
    if (intent === undefined) count(this.#journal, 'claim without intent')
    if (group.generation > 1) count(this.#journal, 'takeover')
    if (range) count(this.#journal, 'repeat by another owner')
    const pin = this.#reachable(this.#protocol.oneOwner ? choice : 0) ?? this.#cluster.replica(0)
    return {
      unit,
      state: 'waiting',
      pin,
      positions: new Map(group.partitionsOf(unit).map((partition) => [partition, group.positions[partition] ?? 0])),
      range,
      rows: range ? group.blocks(range.partition, range.from, range.end) : [],
      isRepeat: range !== undefined,
      ownedAt: this.#cluster.now,
      insert: undefined,
      waitsUntil: mustWait ? this.#cluster.now + this.#lateTicks() : 0,
      sync: undefined,
      server: pin.server,
      seen: [],
    }
  }

  /** How long an insert of an earlier owner may still be stored. */
  #lateTicks(): number {
    return (this.#protocol.deadline ? startTicks : 0) + runTicks + 1
  }

  #advance(task: Task, choice: number): boolean {
    switch (task.state) {
      case 'waiting':
        if (this.#cluster.now < task.waitsUntil) return false
        task.state = this.#protocol.pin ? 'synchronizing' : this.#afterSync(task)
        return true
      case 'synchronizing':
        return this.#synchronize(task, choice)
      case 'choosing':
        return this.#choose(task, choice)
      case 'committing the intent':
        return this.#commitIntent(task)
      case 'sending':
        return this.#send(task, choice)
      case 'awaiting the answer':
        return this.#await(task, choice)
      case 'looking at its replica':
        return this.#lookAtPin(task, choice)
      case 'looking at another':
        return this.#lookAtAnother(task, choice)
      case 'committing':
        return this.#commit(task, choice)
    }
  }

  #afterSync(task: Task): Task['state'] {
    if (task.range === undefined) return 'choosing'
    return this.#provesOwnership() ? 'committing the intent' : 'sending'
  }

  /**
   * Whether there is a commit before every attempt. Before a repeated attempt it is needed only if time limits are
   * counted from the commit.
   */
  #provesOwnership(): boolean {
    return this.#protocol.deadline
  }

  #synchronize(task: Task, choice: number): boolean {
    if (!this.#reaches(task.pin)) return this.#switch(task, choice)
    if (!this.#sync(task, task.pin)) return choice % 8 === 7 && this.#switch(task, choice)
    task.server = task.pin.server
    task.state = this.#afterSync(task)
    return true
  }

  /** SYSTEM SYNC REPLICA … LIGHTWEIGHT; returns whether it has ended. */
  #sync(task: Task, replica: Replica): boolean {
    if (task.sync?.replica !== replica || task.sync.server !== replica.server) {
      task.sync = { replica, server: replica.server, target: this.#cluster.syncTarget() }
    }
    if (!this.#cluster.hasReached(replica, task.sync.target)) return false
    task.sync = undefined
    return true
  }

  #switch(task: Task, choice: number): boolean {
    const pin = this.#reachable(task.pin.index + 1 + (choice % 2))
    if (pin === undefined || pin === task.pin) return false
    count(this.#journal, 'switch')
    tell(this.#journal, () => `${this.name} switches from ${task.pin.name} to ${pin.name}`)
    task.pin = pin
    task.sync = undefined
    if (this.#protocol.pin) task.state = 'synchronizing'
    return true
  }

  #choose(task: Task, choice: number): boolean {
    const range = this.#nextRange(task, choice)
    if (range === undefined) return false
    this.#setRange(task, range)
    task.state = this.#protocol.intent || this.#provesOwnership() ? 'committing the intent' : 'sending'
    return true
  }

  /** The next batch: some of the blocks that are there, of one of the partitions. */
  #nextRange({ unit, positions }: Task, choice: number): Range | undefined {
    const partitions = this.#group.partitionsOf(unit)
    for (const index of partitions.keys()) {
      const partition = partitions[(index + choice) % partitions.length] ?? 0
      const from = positions.get(partition) ?? 0
      const waiting = (this.#group.published[partition] ?? 0) - from
      if (waiting > 0) return { partition, from, end: from + 1 + (choice % waiting), renewals: 0 }
    }
    return undefined
  }

  #setRange(task: Task, range: Range | undefined): void {
    task.range = range
    task.rows = range ? this.#group.blocks(range.partition, range.from, range.end) : []
    task.isRepeat = false
    if (range) tell(this.#journal, () => `${this.name} takes ${rangeText(range)}`)
  }

  #commitIntent(task: Task): boolean {
    if (this.#commitWith(task, task.range)) task.state = 'sending'
    return true
  }

  #becomes(task: Task, state: Task['state']): true {
    task.state = state
    return true
  }

  /** Commits the offsets with an intent. A writer whose commit is refused gives up its partitions. */
  #commitWith(task: Task, range: Range | undefined): boolean {
    const intent: Intent = this.#protocol.intent && range ? { ...range } : 'idle'
    const sentAt = this.#cluster.now
    const isAccepted = this.#group.commit(this, task.unit, { positions: [...task.positions], intent })
    tell(
      this.#journal,
      () =>
        `${this.name} commits [${[...task.positions.values()].join(' ')}] and ` +
        `${typeof intent === 'object' ? rangeText(intent) : 'no intent'}: ${isAccepted ? 'accepted' : 'refused'}`,
    )
    if (isAccepted) task.ownedAt = sentAt
    else this.#dropTasks()
    return isAccepted
  }

  #send(task: Task, choice: number): boolean {
    const { range } = task
    if (range === undefined) return false
    const replica = this.#protocol.pin ? task.pin : (this.#reachable(choice) ?? task.pin)
    if (!this.#reaches(replica)) return this.#switch(task, choice)
    if (choice % 6 === 5 && range.end - range.from > 1) return this.#halve(task, range)
    this.#insertsSent += 1
    task.insert = this.#cluster.send({
      name: `${this.name}${this.#insertsSent} (${rangeText(range)})`,
      writer: this.index,
      generation: this.generation,
      replica,
      rows: task.rows,
      token: this.#protocol.token ? tokenOf(range, this.#protocol.tokenHash ? task.rows : []) : undefined,
      startUntil: this.#protocol.deadline ? task.ownedAt + startTicks : Number.POSITIVE_INFINITY,
      server: this.#protocol.pin ? task.server : replica.server,
      replacesRunning: task.isRepeat,
    })
    tell(this.#journal, () => `${this.name} sends ${task.insert?.name ?? ''} to ${replica.name}`)
    return this.#becomes(task, 'awaiting the answer')
  }

  /** ClickHouse finds the batch too large. An insert of the whole that may still run must have ended before. */
  #halve(task: Task, range: Range): true {
    const half = { ...range, end: range.from + Math.ceil((range.end - range.from) / 2) }
    count(this.#journal, 'batch halved')
    tell(this.#journal, () => `${this.name} halves ${rangeText(range)}`)
    task.range = half
    task.rows = task.rows.slice(0, this.#group.blocks(half.partition, half.from, half.end).length)
    if (!this.#protocol.commitsHalves) return true
    if (!task.isRepeat) return this.#becomes(task, 'committing the intent')
    task.waitsUntil = this.#cluster.now + this.#lateTicks()
    return this.#becomes(task, 'waiting')
  }

  #await(task: Task, choice: number): boolean {
    const { insert } = task
    if (insert === undefined) return false
    if (!insert.isCut && insert.answer === undefined) return false
    task.insert = undefined
    const answer = insert.isCut ? undefined : insert.answer
    if (answer?.kind === 'ok') {
      const hasCopies = answer.written < rowsToStore(task.rows, []).length
      const mustVerify =
        (task.isRepeat && this.#protocol.verifiesRepeats) || (hasCopies && this.#protocol.verifiesCopies)
      return this.#becomes(task, mustVerify ? 'looking at its replica' : 'committing')
    }
    count(this.#journal, 'repeat by the same owner')
    task.isRepeat = true
    task.state = this.#provesOwnership() ? 'committing the intent' : 'sending'
    // A server with another disk is synchronized first, as another replica is.
    if (this.#protocol.pin && task.server !== task.pin.server) return this.#becomes(task, 'synchronizing')
    // The cause may be another writer with the same lock, so the writer does not switch to another replica at once.
    if (choice % 3 === 2 || !this.#reaches(task.pin)) this.#switch(task, choice)
    return true
  }

  /** After a repeat: what is stored must be seen on the pinned replica, and so by the next look-back… */
  #lookAtPin(task: Task, choice: number): boolean {
    if (!this.#reaches(task.pin)) return this.#repeatElsewhere(task, choice)
    if (!this.#sync(task, task.pin)) return choice % 8 === 7 && this.#repeatElsewhere(task, choice)
    if (task.server !== task.pin.server) return this.#repeatAfterSync(task)
    task.seen = task.rows.map((row) => partsThatShow(row, task.pin))
    return this.#becomes(task, 'looking at another')
  }

  #repeatElsewhere(task: Task, choice: number): boolean {
    task.isRepeat = true
    return this.#switch(task, choice)
  }

  #repeatAfterSync(task: Task): true {
    task.isRepeat = true
    return this.#becomes(task, 'synchronizing')
  }

  /** … and in the same part of another one: a part that two replicas have is registered, and a quorum has it. */
  #lookAtAnother(task: Task, choice: number): boolean {
    const other = task.sync?.replica ?? this.#cluster.replica(task.pin.index + 1 + (choice % 2))
    if (!this.#reaches(other) || !this.#cluster.isActive(other)) {
      task.sync = undefined
      return false
    }
    if (!this.#sync(task, other)) {
      if (choice % 8 === 7) task.sync = undefined
      return false
    }
    const areShown = task.rows.every((row, index) =>
      partsThatShow(row, other).some((part) => task.seen[index]?.includes(part)),
    )
    if (areShown) return this.#becomes(task, 'committing')
    count(this.#journal, 'rows missing after an insert')
    tell(this.#journal, () => `${this.name} misses rows on ${other.name}`)
    return this.#renew(task)
  }

  /**
   * The insert may have left out rows as copies of other rows that have vanished since. These rows can't be stored
   * under the token of the other rows. When the insert with the new token is sent, no insert with the old token can run
   * any more.
   */
  #renew(task: Task): true {
    if (!this.#protocol.renewsToken || task.range === undefined) return this.#repeatAfterSync(task)
    count(this.#journal, 'token renewed')
    task.range = { ...task.range, renewals: task.range.renewals + 1 }
    task.waitsUntil = this.#cluster.now + this.#lateTicks()
    task.isRepeat = true
    return this.#becomes(task, 'waiting')
  }

  #commit(task: Task, choice: number): boolean {
    const { range } = task
    if (range === undefined) return false
    task.positions.set(range.partition, range.end)
    const next = choice % 4 === 3 ? undefined : this.#nextRange(task, choice)
    this.#setRange(task, next)
    if (!this.#commitWith(task, next)) return true
    return this.#becomes(task, next ? 'sending' : 'choosing')
  }

  #reaches(replica: Replica): boolean {
    return replica.isUp && !this.cutOff.has(replica)
  }

  #reachable(first: number): Replica | undefined {
    return [0, 1, 2].map((offset) => this.#cluster.replica(first + offset)).find((each) => this.#reaches(each))
  }

  #cutAnswer(insert: Insert): void {
    if (!insert.isCut) count(this.#journal, 'answer lost')
    insert.isCut = true
  }

  #dropTasks(): void {
    for (const { insert } of this.#tasks) if (insert) insert.isCut = true
    this.#tasks = []
  }
}
