import type { Result } from 'ioredis'
import { LRUCache } from 'lru-cache'
import type { Consumption, Limiter, LimitState } from '@sluice/access/limiter'
import { LimitWindow } from './limit-window.ts'
import type { RedisLifetimes } from './port.ts'
import type { RedisConnection } from './redis-connection.ts'

/** Above this number, this process removes the least recently used counters; Redis keeps them. */
const countersMax = 100_000

declare module 'ioredis' {
  interface RedisCommander<Context> {
    /**
     * `windowSecondsAgain` has no effect. The script keeps its arguments, so that old and new builds send the same
     * command.
     */
    countCost(
      key: string,
      cost: number,
      windowSeconds: number,
      limit: number,
      windowSecondsAgain: number,
    ): Result<[consumed: number, leftMs: number], Context>
  }
}

/**
 * Counts a cost if it fits into a limit. KEYS: the counter. ARGV: cost (negative for a refund), seconds of a window,
 * limit. Returns the consumed part of the limit and the ms until the window ends. If the cost does not fit, nothing is
 * counted, and the first number is `used + cost`, which is above the limit. A window opens with the first positive
 * cost.
 */
const countScript = `
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

/** One call of `consume` or `refund`. Its result is set when its batch is settled. */
class Call implements Consumption {
  granted = false
  remaining = 0
  resetAt = 0
  readonly cost: number

  constructor(cost: number) {
    this.cost = cost
  }
}

/**
 * Calls that are sent to Redis together, as one. `consume` calls wait for the result. `count` calls were granted ahead,
 * and are counted without a limit. `refund` calls subtract costs.
 */
class Batch {
  readonly kind: 'consume' | 'count' | 'refund'
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

/** What this process knows of a counter's window, and the batches that wait for Redis. */
class Counter extends LimitWindow {
  /** In the order of arrival, without the batch that is being settled. */
  readonly pendingBatches: Batch[] = []
  isBusy = false
  /** The sum of the refunds that Redis has not processed yet. */
  pendingRefunds = 0
  /** The sum of the costs that were granted ahead and that Redis has not counted yet. */
  ahead = 0

  /**
   * Adds a call to the last pending batch if that has the same kind and limit, otherwise to a new batch. Returns the
   * batch.
   */
  addCall(kind: Batch['kind'], limit: number, call: Call): Batch {
    let batch = this.pendingBatches.at(-1)
    if (batch?.kind !== kind || batch.limit !== limit) {
      batch = new Batch(kind, limit)
      this.pendingBatches.push(batch)
    }
    batch.calls.push(call)
    return batch
  }
}

/**
 * While more than `comfortable` of a limit remains, costs of up to `ahead` of the limit in total are granted without
 * waiting for Redis. Redis counts them afterwards. If the parsed events of a batch waited for Redis, the batch would
 * cost a third more (docs/benchmarks.md). Limits below 1,000 are exact. A higher limit can be exceeded by a thousandth
 * for each process, if the other processes consume the remaining tenth within one call to Redis.
 */
const shares = { comfortable: 1 / 10, ahead: 1 / 1_000 }

interface RemoteCount {
  granted: boolean
  /** The consumed part of the limit. It includes this cost if it was granted. */
  consumed: number
  /** Unix ms. */
  endsAt: number
}

/**
 * Counts in Redis, for all processes together (docs/decisions/010-limits-in-redis.md). Each counter has at most one
 * running call to Redis. Costs that arrive during the call, including those that were granted ahead, are summed and
 * sent with the next call. A cost above the known rest of the limit is refused without a call: within a window, the
 * rest only increases by refunds, and this process learns of them by its next call. If Redis does not reply, costs are
 * counted in this process, on top of the last count that Redis returned.
 */
export function redisLimiter(connection: RedisConnection, { limitWindowSeconds }: RedisLifetimes): Limiter {
  const windowMs = limitWindowSeconds * 1000
  const counters = new LRUCache<string, Counter>({ max: countersMax })
  const untouched = new LimitWindow(windowMs)
  connection.client.defineCommand('countCost', { numberOfKeys: 1, lua: countScript })

  const getCounter = (name: string): Counter => {
    let counter = counters.get(name)
    if (counter === undefined) {
      counter = new Counter(windowMs)
      counters.set(name, counter)
    }
    return counter
  }

  /** Undefined when Redis did not reply. It may or may not have counted the sum. */
  const countInRedis = async (name: string, { kind, limit }: Batch, sum: number): Promise<RemoteCount | undefined> => {
    if (!connection.isUp()) return undefined
    const sentAt = Date.now()
    const cost = kind === 'refund' ? -sum : sum
    const enforcedLimit = kind === 'count' ? Number.MAX_SAFE_INTEGER : limit
    try {
      const [consumed, leftMs] = await connection.run((client) =>
        client.countCost(`limit:${name}`, cost, limitWindowSeconds, enforcedLimit, limitWindowSeconds),
      )
      const granted = kind === 'refund' || consumed <= enforcedLimit
      return {
        granted,
        consumed: granted ? consumed : consumed - cost,
        // Never later than the end in Redis, because this process must not refuse what Redis would grant.
        endsAt: sentAt + Math.max(0, leftMs),
      }
    } catch {
      return undefined // The connection has logged the reason.
    }
  }

  const settleConsume = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const { calls, limit } = batch
    let sum = grantInOrder(calls, limit - counter.consumedAt(Date.now()) - counter.ahead)
    while (sum > 0) {
      const remote = await countInRedis(name, batch, sum)
      const now = Date.now()
      if (remote === undefined) {
        counter.count(sum, now)
        break
      }
      counter.mergeRemote(remote.consumed, remote.endsAt, remote.granted ? sum : 0, now)
      if (remote.granted) break
      // Other processes have consumed more than this process knew. The calls that still fit are granted in the same
      // order.
      sum = grantInOrder(calls, limit - counter.consumedAt(now) - counter.ahead)
    }
    const now = Date.now()
    let consumed = Math.max(0, counter.consumedAt(now) - sum)
    for (const call of calls) {
      if (call.granted) consumed += call.cost
      const { remaining, resetAt } = counter.stateAfter(consumed, limit, now)
      call.remaining = remaining
      call.resetAt = resetAt
    }
  }

  const settleCount = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const sum = sumOfCosts(batch.calls)
    const remote = await countInRedis(name, batch, sum)
    const now = Date.now()
    if (remote === undefined) counter.count(sum, now)
    else counter.mergeRemote(remote.consumed, remote.endsAt, sum, now)
    counter.ahead -= sum
  }

  const settleRefund = async (name: string, counter: Counter, batch: Batch): Promise<void> => {
    const sum = sumOfCosts(batch.calls)
    const remote = await countInRedis(name, batch, sum)
    const now = Date.now()
    if (remote === undefined) counter.refund(sum, now)
    else counter.mergeRemote(remote.consumed, remote.endsAt, -sum, now)
    counter.pendingRefunds -= sum
  }

  /** Settles the batches of a counter one after the other, until none is pending. Never rejects. */
  const settleBatches = async (name: string, counter: Counter): Promise<void> => {
    counter.isBusy = true
    for (let batch = counter.pendingBatches.shift(); batch !== undefined; batch = counter.pendingBatches.shift()) {
      if (batch.kind === 'consume') await settleConsume(name, counter, batch)
      else if (batch.kind === 'count') await settleCount(name, counter, batch)
      else await settleRefund(name, counter, batch)
      batch.settle(undefined)
    }
    counter.isBusy = false
  }

  /** The part of the limit that is certainly consumed. */
  const knownConsumption = (counter: Counter, now: number): number =>
    Math.max(0, counter.consumedAt(now) + counter.ahead - counter.pendingRefunds)

  const allowsGrantAhead = (counter: Counter, cost: number, limit: number, now: number): boolean =>
    counter.isOpen(now) &&
    counter.ahead + cost <= limit * shares.ahead &&
    counter.consumedAt(now) + counter.ahead + cost <= limit * (1 - shares.comfortable)

  return {
    consume(name, cost, limit): Consumption | Promise<Consumption> {
      const now = Date.now()
      const counter = getCounter(name)
      const consumed = knownConsumption(counter, now)
      if (consumed + cost > limit) {
        const { remaining, resetAt } = counter.stateAfter(consumed, limit, now)
        return { granted: false, remaining, resetAt }
      }
      if (!counter.isBusy && !connection.isUp()) return counter.consume(cost, limit, now)
      if (allowsGrantAhead(counter, cost, limit, now)) {
        counter.ahead += cost
        counter.addCall('count', limit, new Call(cost))
        if (!counter.isBusy) void settleBatches(name, counter)
        return { granted: true, ...counter.stateAfter(consumed + cost, limit, now) }
      }
      const call = new Call(cost)
      const batch = counter.addCall('consume', limit, call)
      if (!counter.isBusy) void settleBatches(name, counter)
      return resultOf(call, batch)
    },
    async refund(name, cost, limit): Promise<void> {
      const counter = getCounter(name)
      counter.pendingRefunds += cost
      const batch = counter.addCall('refund', limit, new Call(cost))
      if (!counter.isBusy) void settleBatches(name, counter)
      await batch.done
    },
    peek(name, limit): LimitState {
      const now = Date.now()
      const counter = counters.get(name)
      return counter === undefined
        ? untouched.stateAfter(0, limit, now)
        : counter.stateAfter(knownConsumption(counter, now), limit, now)
    },
  }
}

async function resultOf(call: Call, batch: Batch): Promise<Consumption> {
  await batch.done
  return call
}

function sumOfCosts(calls: readonly Call[]): number {
  return calls.reduce((sum, { cost }) => sum + cost, 0)
}

/** Grants each call that fits into the rest after the previous calls. Returns the sum of the granted costs. */
function grantInOrder(calls: readonly Call[], remaining: number): number {
  let sum = 0
  for (const call of calls) {
    call.granted = sum + call.cost <= remaining
    if (call.granted) sum += call.cost
  }
  return sum
}
