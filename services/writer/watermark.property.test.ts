import { expect, test } from '@jest/globals'
import { acceptance } from '@sluice/contracts/acceptance'
import fc from 'fast-check'
import { watermark } from './watermark.ts'

const margin = acceptance.msMax + acceptance.clockSkewMsMax + 1
const writers = 3
const partitions = 3

/** What happens next; `after` ms of true time later than what happened before. */
type Step = { after: number } & (
  | { kind: 'append'; gateway: number; partition: number; sinceReceipt: number; untilAnswer: number }
  /** The member stores and commits some blocks; `lost` refuses the commit, for the partition is another's by then. */
  | { kind: 'store'; writer: number; partition: number; blocks: number }
  | { kind: 'claim'; writer: number; partition: number; isNoticed: boolean }
  /** The member asks the log for its ends; or, the next time, hears them; or Postgres is told. */
  | { kind: 'speak'; writer: number }
)

const writer = fc.nat(writers - 1)
const partition = fc.nat(partitions - 1)
const after = fc.oneof(fc.nat(20), fc.nat(1_500))
// Up to the limit and beyond it: what comes later is answered 503.
const delay = fc.oneof(fc.nat(50), fc.nat(acceptance.msMax), fc.constant(acceptance.msMax))

const append = fc.record({
  kind: fc.constant('append' as const),
  after,
  gateway: fc.nat(1),
  partition,
  sinceReceipt: delay,
  untilAnswer: delay,
})
const store = fc.record({ kind: fc.constant('store' as const), after, writer, partition, blocks: fc.nat(4) })
const claim = fc.record({ kind: fc.constant('claim' as const), after, writer, partition, isNoticed: fc.boolean() })
const speak = fc.record({ kind: fc.constant('speak' as const), after, writer })
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof({ weight: 4, arbitrary: append }, { weight: 4, arbitrary: store }, claim, { weight: 8, arbitrary: speak }),
  { minLength: 30, maxLength: 120 },
)
/** How far each clock is ahead of the slowest. */
const clock = fc.nat(acceptance.clockSkewMsMax)

interface Logged {
  /** By the gateway's clock. */
  receivedAt: number
  isAccepted: boolean
}

/** A log, its gateways and writers, and what Postgres has been told; time passes step by step. */
function world(clocks: { gateways: readonly number[]; writers: readonly number[] }) {
  let now = Date.UTC(2026, 0, 15, 12)
  const log: Logged[][] = Array.from({ length: partitions }, () => [])
  const stored = Array.from({ length: partitions }, () => 0)
  const positions = Array.from({ length: partitions }, () => 0n)
  const owners: (number | undefined)[] = Array.from({ length: partitions }, () => undefined)
  const told = Array.from({ length: partitions }, () => -Infinity)
  const members = clocks.writers.map((ahead) => ({
    ahead,
    rule: watermark(),
    /** What it believes to hold; after a freeze that may be another's. */
    committed: new Map<number, bigint>(),
    askedAt: undefined as number | undefined,
    statement: undefined as (number | undefined)[] | undefined,
  }))

  function take(step: Step): void {
    now += step.after
    if (step.kind === 'append') {
      log[step.partition]?.push({
        receivedAt: now - step.sinceReceipt + (clocks.gateways[step.gateway] ?? 0),
        isAccepted: step.sinceReceipt + step.untilAnswer <= acceptance.msMax,
      })
      return
    }
    const member = members[step.writer]
    if (member === undefined) return
    if (step.kind === 'claim') {
      const before = members[owners[step.partition] ?? -1]
      if (step.isNoticed) before?.committed.delete(step.partition)
      owners[step.partition] = step.writer
      member.committed.set(step.partition, positions[step.partition] ?? 0n)
    } else if (step.kind === 'store') {
      const from = member.committed.get(step.partition)
      if (from === undefined) return
      const next = Math.min(Number(from) + step.blocks, log[step.partition]?.length ?? 0)
      stored[step.partition] = Math.max(stored[step.partition] ?? 0, next)
      if (owners[step.partition] !== step.writer) return
      positions[step.partition] = BigInt(next)
      member.committed.set(step.partition, BigInt(next))
    } else if (member.statement) {
      for (const [each, until] of member.statement.entries()) {
        told[each] = Math.max(told[each] ?? -Infinity, until ?? -Infinity)
      }
      member.statement = undefined
    } else if (member.askedAt === undefined) {
      member.askedAt = now + member.ahead
    } else {
      const ends = log.map(({ length }) => BigInt(length))
      member.statement = member.rule({ askedAt: member.askedAt, ends, committed: member.committed })
      member.askedAt = undefined
    }
  }

  return {
    take,
    told,
    now: () => now,
    /** Events answered 202 that a reader was told of and does not find, whenever they come. */
    missing: (at: readonly { until: number; stored: number }[]) =>
      log.flatMap((blocks, each) =>
        blocks.filter(
          ({ receivedAt, isAccepted }, offset) =>
            isAccepted && receivedAt <= (at[each]?.until ?? 0) && offset >= (at[each]?.stored ?? 0),
        ),
      ),
    seen: () => told.map((until, each) => ({ until, stored: stored[each] ?? 0 })),
    length: (each: number) => log[each]?.length ?? 0,
  }
}

test('whatever happens, nothing is missing of what it says is complete; once all is stored it says so', () => {
  let tellings = 0
  fc.assert(
    fc.property(steps, fc.tuple(clock, clock), fc.tuple(clock, clock, clock), (script, gateways, ahead) => {
      const it = world({ gateways, writers: ahead })
      for (let each = 0; each < partitions; each++) {
        it.take({ kind: 'claim', after: 0, writer: each % writers, partition: each, isNoticed: true })
      }
      const seen: ReturnType<typeof it.seen>[] = []
      for (const step of script) {
        it.take(step)
        if (step.kind === 'speak') seen.push(it.seen())
      }
      // Only at the end, for an event that comes later may have been received before.
      for (const at of seen) expect(it.missing(at)).toStrictEqual([])
      tellings += seen.filter((at) => at.some(({ until }) => until > -Infinity)).length

      for (let each = 0; each < partitions; each++) {
        it.take({ kind: 'claim', after: 0, writer: 0, partition: each, isNoticed: true })
        it.take({ kind: 'store', after: 0, writer: 0, partition: each, blocks: it.length(each) })
      }
      // What it was about to say, then what it sees now.
      for (let n = 0; n < 5; n++) it.take({ kind: 'speak', after: 0, writer: 0 })
      for (const until of it.told) expect(until).toBeGreaterThanOrEqual(it.now() + ahead[0] - margin)
    }),
    { numRuns: 1_000 },
  )
  expect(tellings).toBeGreaterThan(5_000)
})

test('under load, when the end is always ahead, it follows', () => {
  const rule = watermark()
  const at = (askedAt: number, end: number, position: number) =>
    rule({ askedAt, ends: [BigInt(end)], committed: new Map([[0, BigInt(position)]]) })
  expect(at(1_000, 10, 0)).toStrictEqual([undefined])
  expect(at(2_000, 20, 9)).toStrictEqual([undefined])
  expect(at(3_000, 30, 15)).toStrictEqual([1_000 - margin])
  expect(at(4_000, 40, 30)).toStrictEqual([3_000 - margin])
  expect(at(5_000, 50, 50)).toStrictEqual([5_000 - margin])
})
