import { LRUCache } from 'lru-cache'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Limiter, LimitState, Spent, Times } from './ports.ts'
import type { RedisConnection } from './redis-connection.ts'
import { Window } from './window.ts'

/** Beyond them the least recently used are forgotten here; Redis still has them. */
const countersMax = 100_000
/** Different limits; nearly all keys have the default ones. */
const limitsMax = 1_000

/**
 * In place of the library's script, which counts what it refuses too. KEYS: the counter; ARGV: cost (below 0: given
 * back), seconds of a window, limit. Returns what is used and the ms left; when the cost did not fit, `used + cost`,
 * which is above the limit, and nothing is counted.
 */
const spendScript = `
local cost = tonumber(ARGV[1])
local left = redis.call('pttl', KEYS[1])
local used = 0
if left > 0 then used = tonumber(redis.call('get', KEYS[1])) end
if cost > 0 and used + cost > tonumber(ARGV[3]) then return {used + cost, left} end
used = math.max(0, used + cost)
if left > 0 then
  redis.call('set', KEYS[1], used, 'KEEPTTL')
elseif cost > 0 then
  redis.call('set', KEYS[1], used, 'EX', ARGV[2])
  left = 1000 * tonumber(ARGV[2])
end
return {used, left}
`

/** One caller of `spend`, and what becomes of it. */
class Call implements Spent {
  granted = false
  remaining = 0
  resetAt = 0
  readonly cost: number

  constructor(cost: number) {
    this.cost = cost
  }
}

/** Calls that go to Redis together, as one. */
class Batch {
  readonly kind: 'spend' | 'count' | 'give back'
  readonly limit: number
  readonly calls: Call[] = []
  /** Resolves when every call is settled. */
  readonly done: Promise<undefined>
  readonly settle: (nothing: undefined) => void

  constructor(kind: Batch['kind'], limit: number) {
    this.kind = kind
    this.limit = limit
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.done = promise
    this.settle = resolve
  }
}

/** What this process knows of a counter, and what waits for its turn. */
class Counter extends Window {
  /** In their order; not the one under way. */
  readonly waiting: Batch[] = []
  isBusy = false
  /** The sum of give-backs that wait or are under way. */
  givingBack = 0
  /** The sum of what was granted ahead of Redis, and that it has not counted yet. */
  ahead = 0

  /** The batch that goes out last, if the call may join it. */
  join(kind: Batch['kind'], limit: number, call: Call): Batch {
    let batch = this.waiting.at(-1)
    if (batch?.kind !== kind || batch.limit !== limit) {
      batch = new Batch(kind, limit)
      this.waiting.push(batch)
    }
    batch.calls.push(call)
    return batch
  }
}

/**
 * While more than `comfortable` of a limit remains, up to `ahead` of it is granted without waiting for Redis, which counts
 * it all the same: a batch whose parsed events wait for an answer costs a third more (docs/benchmarks.md). Limits below
 * 1,000 are exact; higher ones can be exceeded by a thousandth for each process, if the others use up the tenth within
 * one call to Redis.
 */
const shares = { comfortable: 1 / 10, ahead: 1 / 1_000 }

interface Counted {
  granted: boolean
  /** In the window, this cost included if it was granted. */
  used: number
  /** Unix ms. */
  endsAt: number
}

/**
 * Counts in Redis, for all processes together. Per counter one call is under way; what comes meanwhile is summed and goes
 * with the next, what was granted ahead of it too. A cost above what is known to remain is refused without asking: within a window the rest only falls.
 * What Redis leaves unanswered is counted here, on top of what was heard last.
 */
export function redisLimiter(connection: RedisConnection, { limitWindowSeconds }: Times): Limiter {
  const windowMs = limitWindowSeconds * 1000
  const counters = new LRUCache<string, Counter>({ max: countersMax })
  const limiters = new LRUCache<number, RateLimiterRedis>({ max: limitsMax })
  const unused = new Window(windowMs)

  const counterOf = (name: string): Counter => {
    let counter = counters.get(name)
    if (counter === undefined) {
      counter = new Counter(windowMs)
      counters.set(name, counter)
    }
    return counter
  }

  /** The library's limiters differ in their number of points alone; the key and the count are the same. */
  const limiterOf = (limit: number): RateLimiterRedis => {
    let limiter = limiters.get(limit)
    if (limiter === undefined) {
      limiter = new RateLimiterRedis({
        storeClient: connection.client,
        keyPrefix: 'limit',
        points: limit,
        duration: limitWindowSeconds,
        customIncrTtlLuaScript: spendScript,
      })
      limiters.set(limit, limiter)
    }
    return limiter
  }

  /** Undefined when Redis did not answer; it may have counted or not. */
  const countInRedis = async (name: string, { kind, limit }: Batch, sum: number): Promise<Counted | undefined> => {
    if (!connection.isUp()) return undefined
    const sentAt = Date.now()
    try {
      const { isRefused, result } = await connection.ask(() =>
        kind === 'spend'
          ? limiterOf(limit).consume(name, sum).then(onGranted, onRefused)
          : kind === 'count'
            ? limiterOf(Number.MAX_SAFE_INTEGER).consume(name, sum).then(onGranted)
            : limiterOf(limit).reward(name, sum).then(onGranted),
      )
      const { consumedPoints, msBeforeNext } = result
      return {
        granted: !isRefused,
        used: isRefused ? consumedPoints - sum : consumedPoints,
        // At the latest then: it never refuses here what Redis would grant.
        endsAt: sentAt + Math.max(0, msBeforeNext),
      }
    } catch {
      return undefined // the connection tells why
    }
  }

  const spendTogether = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const { calls, limit } = batch
    let sum = grantInOrder(calls, limit - counter.usedAt(Date.now()) - counter.ahead)
    while (sum > 0) {
      const counted = await countInRedis(name, batch, sum)
      const now = Date.now()
      if (counted === undefined) {
        counter.count(sum, now)
        break
      }
      counter.hear(counted.used, counted.endsAt, counted.granted ? sum : 0, now)
      if (counted.granted) break
      // Others were faster. What still fits does so in the same order.
      sum = grantInOrder(calls, limit - counter.usedAt(now) - counter.ahead)
    }
    const now = Date.now()
    let used = Math.max(0, counter.usedAt(now) - sum)
    for (const call of calls) {
      if (call.granted) used += call.cost
      const { remaining, resetAt } = counter.stateAfter(used, limit, now)
      call.remaining = remaining
      call.resetAt = resetAt
    }
  }

  const countTogether = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const sum = sumOf(batch.calls)
    const counted = await countInRedis(name, batch, sum)
    const now = Date.now()
    if (counted === undefined) counter.count(sum, now)
    else counter.hear(counted.used, counted.endsAt, sum, now)
    counter.ahead -= sum
  }

  const giveBackTogether = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const sum = sumOf(batch.calls)
    const counted = await countInRedis(name, batch, sum)
    const now = Date.now()
    if (counted === undefined) counter.giveBack(sum, now)
    else counter.hear(counted.used, counted.endsAt, -sum, now)
    counter.givingBack -= sum
  }

  /** Settles the counter's batches one after the other, until none waits. Never rejects. */
  const work = async (name: string, counter: Counter): Promise<void> => {
    counter.isBusy = true
    for (let batch = counter.waiting.shift(); batch !== undefined; batch = counter.waiting.shift()) {
      if (batch.kind === 'spend') await spendTogether(name, counter, batch)
      else if (batch.kind === 'count') await countTogether(name, counter, batch)
      else await giveBackTogether(name, counter, batch)
      batch.settle(undefined)
    }
    counter.isBusy = false
  }

  /** What is certainly used. */
  const knownUse = (counter: Counter, now: number): number =>
    Math.max(0, counter.usedAt(now) + counter.ahead - counter.givingBack)

  const mayGoAhead = (counter: Counter, cost: number, limit: number, now: number): boolean =>
    counter.isOpen(now) &&
    counter.ahead + cost <= limit * shares.ahead &&
    counter.usedAt(now) + counter.ahead + cost <= limit * (1 - shares.comfortable)

  return {
    spend(name, cost, limit): Spent | Promise<Spent> {
      const now = Date.now()
      const counter = counterOf(name)
      const used = knownUse(counter, now)
      if (used + cost > limit) {
        const { remaining, resetAt } = counter.stateAfter(used, limit, now)
        return { granted: false, remaining, resetAt }
      }
      if (!counter.isBusy && !connection.isUp()) return counter.spend(cost, limit, now)
      if (mayGoAhead(counter, cost, limit, now)) {
        counter.ahead += cost
        counter.join('count', limit, new Call(cost))
        if (!counter.isBusy) void work(name, counter)
        return { granted: true, ...counter.stateAfter(used + cost, limit, now) }
      }
      const call = new Call(cost)
      const batch = counter.join('spend', limit, call)
      if (!counter.isBusy) void work(name, counter)
      return settled(batch, call)
    },
    async giveBack(name, cost, limit): Promise<void> {
      const counter = counterOf(name)
      counter.givingBack += cost
      const batch = counter.join('give back', limit, new Call(cost))
      if (!counter.isBusy) void work(name, counter)
      await batch.done
    },
    known(name, limit): LimitState {
      const now = Date.now()
      const counter = counters.get(name)
      return counter === undefined
        ? unused.stateAfter(0, limit, now)
        : counter.stateAfter(knownUse(counter, now), limit, now)
    },
  }
}

async function settled(batch: Batch, call: Call): Promise<Spent> {
  await batch.done
  return call
}

function sumOf(calls: readonly Call[]): number {
  return calls.reduce((total, { cost }) => total + cost, 0)
}

/** Grants each call that fits into what the ones before it left; answers with the sum of what was granted. */
function grantInOrder(calls: readonly Call[], remaining: number): number {
  let sum = 0
  for (const call of calls) {
    call.granted = sum + call.cost <= remaining
    if (call.granted) sum += call.cost
  }
  return sum
}

interface Consumed {
  isRefused: boolean
  result: RateLimiterRes
}

function onGranted(result: RateLimiterRes): Consumed {
  return { isRefused: false, result }
}

/** The library rejects with its result when the cost did not fit. */
function onRefused(reason: unknown): Consumed {
  if (reason instanceof RateLimiterRes) return { isRefused: true, result: reason }
  throw reason
}
