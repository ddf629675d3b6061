import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import { watermarkRule } from './watermark.ts'

const margin = acceptance.msMax + acceptance.clockMarginMs + 1
const writers = 3
const partitions = 3

/** The next step, `after` ms of true time later than the previous one. */
type Step = { after: number } & (
  | {
      kind: 'append'
      gateway: number
      partition: number
      sinceReceipt: number
      untilAnswer: number
      labelError: number
    }
  /**
   * The member stores and commits some blocks; the commit is refused when another member owns the partition by then.
   */
  | { kind: 'store'; writer: number; partition: number; blocks: number }
  | { kind: 'claim'; writer: number; partition: number; isNoticed: boolean }
  /** The member requests the log's ends, receives them the next time, and stores the watermark after that. */
  | { kind: 'speak'; writer: number }
)

const writer = fc.nat(writers - 1)
const partition = fc.nat(partitions - 1)
const after = fc.oneof(fc.nat(20), fc.nat(1_500))
// The durations include some beyond the limit, where the gateway answers 503.
const delay = fc.oneof(
  fc.nat(50),
  fc.nat(acceptance.msMax),
  fc.constant(acceptance.msMax),
  fc.constant(acceptance.msMax + acceptance.clockMarginMs / 2),
)

const append = fc.record({
  kind: fc.constant('append' as const),
  after,
  gateway: fc.nat(1),
  partition,
  sinceReceipt: delay,
  untilAnswer: fc.oneof(fc.constant(0), delay),
  // A wall clock that was set a moment ago.
  labelError: fc.oneof(fc.constant(0), fc.integer({ min: -5_000, max: 5_000 })),
})
const store = fc.record({ kind: fc.constant('store' as const), after, writer, partition, blocks: fc.nat(4) })
const claim = fc.record({ kind: fc.constant('claim' as const), after, writer, partition, isNoticed: fc.boolean() })
const speak = fc.record({ kind: fc.constant('speak' as const), after, writer })
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof({ weight: 4, arbitrary: append }, { weight: 4, arbitrary: store }, claim, { weight: 8, arbitrary: speak }),
  { minLength: 30, maxLength: 120 },
)
/**
 * The ms by which a gateway's latest time is after the true time, and a writer's earliest time before it. Negative
 * values are errors that the margin must cover.
 */
const clock = fc.oneof(fc.constant(-acceptance.clockMarginMs / 2), fc.constant(0), fc.nat(500))

interface Logged {
  /** Unix ms by the gateway's clock. */
  receivedAt: number
  isAccepted: boolean
}

/** A log, its gateways and writers, and the watermarks in Postgres; time passes step by step. */
function simulate(clocks: { gateways: readonly number[]; writers: readonly number[] }) {
  let now = Date.UTC(2026, 0, 15, 12)
  const log: Logged[][] = Array.from({ length: partitions }, () => [])
  const stored = Array.from({ length: partitions }, () => 0)
  const positions = Array.from({ length: partitions }, () => 0n)
  const owners: (number | undefined)[] = Array.from({ length: partitions }, () => undefined)
  const reported = Array.from({ length: partitions }, () => -Infinity)
  const members = clocks.writers.map((behind) => ({
    behind,
    rule: watermarkRule(),
    /** Partitions that the member believes to own. After a freeze, another member may own them. */
    committed: new Map<number, bigint>(),
    requestedAt: undefined as number | undefined,
    statement: undefined as (number | undefined)[] | undefined,
  }))

  function take(step: Step): void {
    now += step.after
    if (step.kind === 'append') {
      const receivedAt = now - step.sinceReceipt + step.labelError
      log[step.partition]?.push({
        receivedAt,
        isAccepted: now + step.untilAnswer + (clocks.gateways[step.gateway] ?? 0) - receivedAt <= acceptance.msMax,
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
        reported[each] = Math.max(reported[each] ?? -Infinity, until ?? -Infinity)
      }
      member.statement = undefined
    } else if (member.requestedAt === undefined) {
      member.requestedAt = now - member.behind
    } else {
      const endOffsets = log.map(({ length }) => BigInt(length))
      member.statement = member.rule({ requestedAt: member.requestedAt, endOffsets, committed: member.committed })
      member.requestedAt = undefined
    }
  }

  return {
    take,
    reported: reported,
    now: () => now,
    /** Accepted events below the watermark that were not stored when it was read. */
    missing: (at: readonly { until: number; stored: number }[]) =>
      log.flatMap((blocks, each) =>
        blocks.filter(
          ({ receivedAt, isAccepted }, offset) =>
            isAccepted && receivedAt <= (at[each]?.until ?? 0) && offset >= (at[each]?.stored ?? 0),
        ),
      ),
    seen: () => reported.map((until, each) => ({ until, stored: stored[each] ?? 0 })),
    length: (each: number) => log[each]?.length ?? 0,
  }
}

test('no accepted event is missing below the watermark, which follows the time once all events are stored', () => {
  let reportCount = 0
  fc.assert(
    fc.property(steps, fc.tuple(clock, clock), fc.tuple(clock, clock, clock), (script, gateways, behind) => {
      const it = simulate({ gateways, writers: behind })
      for (let each = 0; each < partitions; each++) {
        it.take({ kind: 'claim', after: 0, writer: each % writers, partition: each, isNoticed: true })
      }
      const seen: ReturnType<typeof it.seen>[] = []
      for (const step of script) {
        it.take(step)
        if (step.kind === 'speak') seen.push(it.seen())
      }
      // The check is made at the end, because an event that arrives later may have been received before.
      for (const at of seen) expect(it.missing(at)).toStrictEqual([])
      reportCount += seen.filter((at) => at.some(({ until }) => until > -Infinity)).length

      for (let each = 0; each < partitions; each++) {
        it.take({ kind: 'claim', after: 0, writer: 0, partition: each, isNoticed: true })
        it.take({ kind: 'store', after: 0, writer: 0, partition: each, blocks: it.length(each) })
      }
      // Each member first finishes its pending report and then reports the present state.
      for (let n = 0; n < 5; n++) it.take({ kind: 'speak', after: 0, writer: 0 })
      for (const until of it.reported) expect(until).toBeGreaterThanOrEqual(it.now() - behind[0] - margin)
    }),
    { numRuns: 1_000 },
  )
  expect(reportCount).toBeGreaterThan(5_000)
})

test('the watermark advances under load, when the end is always ahead, by each end that was requested', () => {
  const rule = watermarkRule()
  const at = (requestedAt: number, end: number, position: number) =>
    rule({ requestedAt: requestedAt, endOffsets: [BigInt(end)], committed: new Map([[0, BigInt(position)]]) })
  expect(at(1_000, 10, 0)).toStrictEqual([undefined])
  expect(at(2_000, 20, 9)).toStrictEqual([undefined])
  expect(at(3_000, 30, 15)).toStrictEqual([1_000 - margin])
  expect(at(4_000, 40, 20)).toStrictEqual([2_000 - margin])
  expect(at(5_000, 50, 40)).toStrictEqual([4_000 - margin])
  expect(at(6_000, 60, 60)).toStrictEqual([6_000 - margin])
})

test('an end that does not move is reached as of its latest request', () => {
  const rule = watermarkRule()
  const at = (requestedAt: number, position: number) =>
    rule({ requestedAt, endOffsets: [10n, 10n], committed: new Map([[0, BigInt(position)]]) })
  expect(at(1_000, 0)).toStrictEqual([undefined, undefined])
  expect(at(2_000, 9)).toStrictEqual([undefined, undefined])
  expect(at(3_000, 10)).toStrictEqual([3_000 - margin, undefined])
})

test('after a long backlog the watermark follows by ends that lie further apart', () => {
  const rule = watermarkRule()
  const at = (requestedAt: number, position: number) =>
    rule({ requestedAt, endOffsets: [BigInt(requestedAt)], committed: new Map([[0, BigInt(position)]]) })[0]
  for (let time = 1; time <= 10_000; time++) expect(at(time, 0)).toBeUndefined()
  for (let position = 1_000; position < 10_000; position += 1_000) {
    const until = at(10_000 + position, position) ?? -Infinity
    expect(until).toBeLessThanOrEqual(position - margin)
    expect(until).toBeGreaterThanOrEqual(position - margin - 500)
  }
})
