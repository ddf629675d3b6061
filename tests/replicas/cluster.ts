import { count, type Journal, tell } from './journal.ts'
import { type Protocol, runTicks, tokenTicks } from './protocol.ts'
import { monthOf, type Row, rowsToStore, rowText } from './rows.ts'

/** Rows of one insert in one partition of the table. */
export interface Part {
  name: string
  month: number
  rows: readonly Row[]
  token: string | undefined
  /**
   * - `local`: Keeper did not answer, and the part is not registered; its replica shows it until it notices that.
   * - `pending`: registered, and on fewer replicas than the quorum.
   * - `stored`: on a quorum.
   * - `failed`: no active replica had it; its token is forgotten, and a replica that has it drops it.
   */
  state: 'local' | 'pending' | 'stored' | 'failed'
  holders: Set<Replica>
}

export interface Replica {
  index: number
  name: string
  isUp: boolean
  /**
   * Whether the replica is active for Keeper. A replica whose session is lost answers until it notices that, but stores
   * nothing.
   */
  hasSession: boolean
  /** Changes with the disk, as `serverUUID()` does. */
  server: number
  parts: Set<Part>
}

export type Answer = { kind: 'ok'; written: number } | { kind: 'failed' }

/** A request to insert; the server continues it when its client has disconnected. */
export interface Insert {
  name: string
  writer: number
  /** Generation of the consumer group in which it was sent. */
  generation: number
  replica: Replica
  rows: readonly Row[]
  token: string | undefined
  /** The server refuses to start it after this tick. */
  startUntil: number
  server: number
  replacesRunning: boolean
  state: 'on its way' | 'running' | 'done'
  startedAt: number
  /** Rows by partition of the table that are still to be stored. */
  rest: Row[][]
  /** The part for whose quorum it waits. */
  waitsFor: Part | undefined
  written: number
  storedMonths: number
  answer: Answer | undefined
  /** Whether the answer can't reach the writer any more. */
  isCut: boolean
}

/** Number of replicas that must have a part before an insert succeeds: `insert_quorum`. */
const quorum = 2

/** ClickHouse's replicas and Keeper. Each method is one step of one of them. */
export class Cluster {
  now = 0
  readonly replicas: Replica[] = ['R1', 'R2', 'R3'].map((name, index) => ({
    index,
    name,
    isUp: true,
    hasSession: true,
    server: 0,
    parts: new Set(),
  }))
  /** Parts in the order of Keeper's log. */
  readonly registered: Part[] = []
  /** Inserts that are on their way or run. */
  inserts: Insert[] = []
  readonly #tokens = new Map<string, { part: Part; at: number }>()
  /** Pairs of replicas that do not reach each other. */
  readonly #apart = new Set<string>()
  #partsMade = 0
  readonly #protocol: Protocol
  readonly #journal: Journal

  constructor(protocol: Protocol, journal: Journal) {
    this.#protocol = protocol
    this.#journal = journal
  }

  replica(index: number): Replica {
    const replica = this.replicas[index % this.replicas.length]
    if (replica === undefined) throw new Error(`there is no replica ${index}`)
    return replica
  }

  isActive({ isUp, hasSession }: Replica): boolean {
    return isUp && hasSession
  }

  /** What SYSTEM SYNC REPLICA waits for when it starts now. */
  syncTarget(): number {
    return this.registered.length
  }

  /** Whether the replica has every part of Keeper's log up to the target. */
  hasReached(replica: Replica, target: number): boolean {
    return (
      this.isActive(replica) &&
      this.registered.slice(0, target).every((part) => part.state === 'failed' || replica.parts.has(part))
    )
  }

  /** A replica works on the nth entry of its queue that it has not fetched. Returns whether anything changed. */
  fetch(replica: Replica, nth: number): boolean {
    if (!this.isActive(replica)) return false
    const missing = this.registered.filter((part) => part.state !== 'failed' && !replica.parts.has(part))
    const part = missing[nth % missing.length]
    if (part === undefined) return false
    const sources = [...part.holders].filter((holder) => this.isActive(holder))
    if (sources.length === 0 && part.state === 'pending') {
      part.state = 'failed'
      if (part.token !== undefined) this.#tokens.delete(tokenKey(part.month, part.token))
      count(this.#journal, 'quorum failed')
      tell(this.#journal, () => `${replica.name} finds no active replica with ${partText(part)}: its quorum has failed`)
      return true
    }
    const source = sources.find((holder) => !this.#apart.has(pairKey(holder, replica)))
    if (source === undefined) return false
    replica.parts.add(part)
    part.holders.add(replica)
    if (part.holders.size >= quorum && part.state === 'pending') part.state = 'stored'
    tell(this.#journal, () => `${replica.name} fetches ${partText(part)} from ${source.name}`)
    return true
  }

  send(
    insert: Omit<Insert, 'state' | 'startedAt' | 'rest' | 'waitsFor' | 'written' | 'storedMonths' | 'answer' | 'isCut'>,
  ): Insert {
    const sent: Insert = {
      ...insert,
      state: 'on its way',
      startedAt: 0,
      rest: [],
      waitsFor: undefined,
      written: 0,
      storedMonths: 0,
      answer: undefined,
      isCut: false,
    }
    this.inserts.push(sent)
    return sent
  }

  /** The server continues an insert. Returns whether anything changed. */
  serve(insert: Insert, { losesKeeper = false } = {}): boolean {
    if (!insert.replica.isUp) return this.#fail(insert, `${insert.replica.name} is down`)
    if (insert.state === 'on its way') return this.#start(insert)
    if (insert.waitsFor?.state === 'failed') return this.#fail(insert, 'the quorum failed')
    if (this.now > insert.startedAt + runTicks) {
      if (insert.waitsFor?.state === 'pending') count(this.#journal, 'quorum timed out')
      return this.#fail(insert, 'it took too long')
    }
    if (insert.waitsFor?.state === 'pending') return false
    insert.waitsFor = undefined
    if (insert.rest.length > 0) return this.#storeMonth(insert, losesKeeper)
    insert.state = 'done'
    insert.answer = { kind: 'ok', written: insert.written }
    this.#forget(insert)
    tell(this.#journal, () => `${insert.replica.name} answers ${insert.name}: ok, ${insert.written} rows`)
    return true
  }

  /** Returns the rows that queries on the replica see: those of all of its parts, even without a quorum. */
  shownRows({ parts }: Replica): Row[] {
    return [...parts].flatMap(({ rows }) => rows)
  }

  stop(replica: Replica): void {
    if (!replica.isUp) return
    replica.isUp = false
    this.#endInserts(replica)
    tell(this.#journal, () => `${replica.name} stops`)
  }

  start(replica: Replica): void {
    if (replica.isUp) return
    replica.isUp = true
    count(this.#journal, 'replica restarted')
    tell(this.#journal, () => `${replica.name} starts`)
    this.#activate(replica)
  }

  /** A replica stops for good, and a new one with an empty disk gets its address. */
  loseDisk(replica: Replica): void {
    this.stop(replica)
    for (const part of replica.parts) part.holders.delete(replica)
    replica.parts.clear()
    replica.server += 1
    count(this.#journal, 'disk lost')
    tell(this.#journal, () => `${replica.name} loses its disk`)
  }

  loseSession(replica: Replica): void {
    if (!this.isActive(replica)) return
    replica.hasSession = false
    count(this.#journal, 'Keeper session lost')
    tell(this.#journal, () => `${replica.name} loses its session with Keeper`)
  }

  renewSession(replica: Replica): void {
    if (!replica.isUp || replica.hasSession) return
    tell(this.#journal, () => `${replica.name} has a session with Keeper again`)
    this.#endInserts(replica)
    this.#activate(replica)
  }

  /** Replicas do not reach each other, or do again. */
  part(one: Replica, other: Replica, isApart: boolean): void {
    if (one === other) return
    if (isApart) this.#apart.add(pairKey(one, other))
    else this.#apart.delete(pairKey(one, other))
    tell(
      this.#journal,
      () => `${one.name} and ${other.name} ${isApart ? 'are cut off from each other' : 'reach each other'}`,
    )
  }

  /** The replica notices which of its parts are not in Keeper, which takes it five minutes, and drops them. */
  checkParts(replica: Replica): void {
    if (!this.isActive(replica)) return
    for (const part of replica.parts) {
      if (part.state !== 'local') continue
      this.#drop(replica, part)
      tell(this.#journal, () => `${replica.name} drops ${partText(part)}, which is not in Keeper`)
    }
  }

  /** Keeper's cleaning forgets tokens, at the earliest when they are `tokenTicks` old. */
  forgetTokens(): void {
    for (const [key, { at }] of this.#tokens) {
      if (this.now <= at + tokenTicks) continue
      this.#tokens.delete(key)
      count(this.#journal, 'token forgotten')
    }
  }

  heal(): void {
    this.#apart.clear()
    for (const replica of this.replicas) {
      this.start(replica)
      this.renewSession(replica)
    }
  }

  #activate(replica: Replica): void {
    replica.hasSession = true
    for (const part of replica.parts) {
      if (part.state !== 'failed') continue
      this.#drop(replica, part)
      tell(this.#journal, () => `${replica.name} drops ${partText(part)}, whose quorum has failed`)
    }
  }

  #drop(replica: Replica, part: Part): void {
    replica.parts.delete(part)
    part.holders.delete(replica)
  }

  #endInserts(replica: Replica): void {
    for (const insert of this.inserts.filter((each) => each.replica === replica && each.state === 'running')) {
      this.#fail(insert, `of ${replica.name}`)
    }
  }

  #fail(insert: Insert, reason: string): true {
    insert.state = 'done'
    insert.answer = { kind: 'failed' }
    if (insert.storedMonths > 0 && insert.rest.length > 0) count(this.#journal, 'half stored')
    this.#forget(insert)
    tell(this.#journal, () => `${insert.name} fails: ${reason}`)
    return true
  }

  #forget(insert: Insert): void {
    this.inserts = this.inserts.filter((each) => each !== insert)
  }

  #start(insert: Insert): true {
    const { replica } = insert
    if (this.#protocol.checksServer && insert.server !== replica.server) return this.#fail(insert, 'another server')
    if (this.now > insert.startUntil) {
      count(this.#journal, 'insert refused after its time')
      return this.#fail(insert, 'its time is over')
    }
    const other = this.inserts.find((each) => each.replica === replica && each.state === 'running')
    if (other !== undefined) {
      if (!insert.replacesRunning) return this.#fail(insert, `${other.name} runs`)
      this.#fail(other, `${insert.name} replaces it`)
    }
    const rows = rowsToStore(insert.rows, this.shownRows(replica))
    const months = new Map<number, Row[]>()
    for (const row of rows) months.set(monthOf(row), [...(months.get(monthOf(row)) ?? []), row])
    if (rows.length < rowsToStore(insert.rows, []).length) count(this.#journal, 'copy left out')
    insert.state = 'running'
    insert.startedAt = this.now
    insert.rest = [...months.values()]
    insert.written = rows.length
    tell(this.#journal, () => `${replica.name} starts ${insert.name}: new are [${rows.map(rowText).join(' ')}]`)
    return true
  }

  /** The rows of one partition of the table are stored together or not at all. */
  #storeMonth(insert: Insert, losesKeeper: boolean): true {
    const { replica, token } = insert
    if (!replica.hasSession) return this.#fail(insert, 'the table is read-only')
    const [rows = []] = insert.rest
    insert.rest = insert.rest.slice(1)
    const [first] = rows
    if (first === undefined) return true
    const month = monthOf(first)
    const known = token === undefined ? undefined : this.#tokens.get(tokenKey(month, token))
    if (known !== undefined) {
      count(this.#journal, 'dropped by its token')
      tell(
        this.#journal,
        () => `Keeper knows the token of ${insert.name}: [${rows.map(rowText).join(' ')}] are dropped`,
      )
      insert.waitsFor = known.part
      return true
    }
    this.#partsMade += 1
    const part: Part = {
      name: `P${this.#partsMade}`,
      month,
      rows,
      token,
      state: losesKeeper ? 'local' : 'pending',
      holders: new Set([replica]),
    }
    replica.parts.add(part)
    if (losesKeeper) {
      count(this.#journal, 'stored on one replica and not in Keeper')
      tell(this.#journal, () => `${replica.name} stores ${partText(part)} of ${insert.name} and can't register it`)
      return this.#fail(insert, 'Keeper did not answer')
    }
    this.registered.push(part)
    if (token !== undefined) this.#tokens.set(tokenKey(month, token), { part, at: this.now })
    insert.storedMonths += 1
    insert.waitsFor = part
    tell(this.#journal, () => `${replica.name} stores and registers ${partText(part)} of ${insert.name}`)
    return true
  }
}

function tokenKey(month: number, token: string): string {
  return `${month}/${token}`
}

function pairKey(one: Replica, other: Replica): string {
  return [one.index, other.index].sort().join('-')
}

function partText({ name, rows }: Part): string {
  return `${name} [${rows.map(rowText).join(' ')}]`
}
