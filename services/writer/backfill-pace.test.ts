import { describe, expect, test } from '@jest/globals'
import type { BlockAtOffset } from '@sluice/event-log/block-lines'
import { tablePartitionOf } from '@sluice/event-store/insert/table-partition'
import { exactClock } from '../../tests/support/clock.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { blockOfRows, event } from '../../tests/support/writer.ts'
import { type BackfillPace, backfillPace } from './backfill-pace.ts'

/** Twelve rows of each month from 2016 on, and one of each year before; by their order in two blocks. */
const months = Array.from({ length: 120 }, (_, month) => Date.UTC(2016, month, 7))
const rows = [
  ...Array.from({ length: 45 }, (_, year) => event(`y${year}`, { timestamp: Date.UTC(1971 + year, 3) })),
  ...months.flatMap((month) => Array.from({ length: 12 }, (_, n) => event(`${month}-${n}`, { timestamp: month + n }))),
]
const blocks: BlockAtOffset[] = [
  {
    ...blockOfRows(
      0,
      rows.filter((_, index) => index % 2 === 0),
    ),
    offset: 3n,
  },
  {
    ...blockOfRows(
      0,
      rows.filter((_, index) => index % 2 === 1),
    ),
    offset: 4n,
  },
]

interface Line {
  event_id: string
  timestamp: number
}

async function statementsOf(
  pace: BackfillPace,
  given: readonly BlockAtOffset[] = blocks,
  { oldestAppendedAt = Date.now(), signal = new AbortController().signal, workMs = 0 } = {},
) {
  const statements: { lines: Line[]; blocks: readonly BlockAtOffset[]; at: number }[] = []
  for await (const part of pace.statements(given, { oldestAppendedAt, signal })) {
    const at = performance.now()
    const lines = part.flatMap(({ payload }) => payload.toString().split('\n').slice(0, -1))
    statements.push({ lines: lines.map((line) => JSON.parse(line) as Line), blocks: part, at })
    await pace.measured(() => new Promise((resolve) => setTimeout(resolve, workMs)))
  }
  return statements
}

const ids = (lines: readonly Line[]) => lines.map(({ event_id: id }) => id).sort()
const always = () => Promise.resolve(true)
const never = () => Promise.resolve(false)

describe('statements', () => {
  test('are one, with the blocks as they are, while no live rows arrive', async () => {
    const statements = await statementsOf(backfillPace(never, exactClock))
    expect(statements.map((each) => each.blocks)).toStrictEqual([blocks])
  })

  test('have rows of eight partitions of the table at most while live rows arrive, each row once', async () => {
    // Blocks that have waited for long, so that the test need not wait for the pauses.
    const statements = await statementsOf(backfillPace(always, exactClock), blocks, { oldestAppendedAt: 0 })
    expect(ids(statements.flatMap(({ lines }) => lines))).toStrictEqual(rows.map(({ event_id: id }) => id).sort())
    const partitions = statements.map(({ lines }) => new Set(lines.map(({ timestamp }) => tablePartitionOf(timestamp))))
    // 45 and 4 years, and 72 months.
    expect(partitions.map(({ size }) => size)).toStrictEqual([...Array.from({ length: 15 }, () => 8), 1])
    for (const { blocks: parts, lines } of statements) {
      expect(parts.map(({ headers }) => headers.rows).reduce((sum, each) => sum + each, 0)).toBe(lines.length)
      expect(parts.every(({ headers, payload }) => headers.bytes === payload.length)).toBe(true)
      expect(parts.every(({ offset }) => offset === 3n || offset === 4n)).toBe(true)
    }
  })

  test('have 20,000 rows at most while live rows arrive', async () => {
    const many = Array.from({ length: 50_000 }, (_, n) => event(String(n), { timestamp: months[0] ?? 0 }))
    const given = [{ ...blockOfRows(0, many), offset: 1n }]
    const statements = await statementsOf(backfillPace(always, exactClock), given, { oldestAppendedAt: 0 })
    expect(statements.map(({ lines }) => lines.length)).toStrictEqual([20_000, 20_000, 10_000])
  })

  test('cover the rest once no live rows arrive any more', async () => {
    let questions = 0
    const pace = backfillPace(() => Promise.resolve(++questions <= 2), exactClock)
    const statements = await statementsOf(pace, blocks, { oldestAppendedAt: 0 })
    expect(statements).toHaveLength(3)
    expect(ids(statements.flatMap(({ lines }) => lines))).toStrictEqual(rows.map(({ event_id: id }) => id).sort())
  })

  test('pause three times as long as the last one took while live rows arrive', async () => {
    const workMs = 200
    const given = [{ ...blockOfRows(0, rows.slice(0, 24)), offset: 1n }]
    const [first, second, third] = await statementsOf(backfillPace(always, exactClock), given, { workMs })
    // A timer may be a millisecond early.
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(4 * workMs - 5)
    expect((third?.at ?? 0) - (second?.at ?? 0)).toBeGreaterThanOrEqual(4 * workMs - 5)
  })

  test('pause no longer than live rows need once the oldest block has waited for four minutes', async () => {
    const pace = backfillPace(always, exactClock)
    await pace.measured(() => new Promise((resolve) => setTimeout(resolve, 500)))
    const startedAt = performance.now()
    const elapsedMs = startStopwatch()
    const given = [{ ...blockOfRows(0, rows.slice(0, 3)), offset: 1n }]
    const [only] = await statementsOf(pace, given, { oldestAppendedAt: Date.now() - 240_000 })
    expect((only?.at ?? 0) - startedAt).toBeGreaterThanOrEqual(240)
    expect(elapsedMs()).toBeLessThan(1_500)
  })

  test('pause by the corrected clock on a machine whose own clock is an hour ahead', async () => {
    const clock = { now: () => Date.now() - 3_600_000 }
    const pace = backfillPace(always, clock)
    const workMs = 200
    const given = [{ ...blockOfRows(0, rows.slice(0, 16)), offset: 1n }]
    const [first, second] = await statementsOf(pace, given, { oldestAppendedAt: clock.now(), workMs })
    // A timer may be a millisecond early.
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(4 * workMs - 5)
  })

  test('throw when the claim is lost in the pause before one of them', async () => {
    const lost = new AbortController()
    let pauses = 0
    const pace = backfillPace(() => {
      pauses++
      if (pauses === 2) setImmediate(() => lost.abort(new Error('lost')))
      return Promise.resolve(true)
    }, exactClock)
    const parts: unknown[] = []
    const run = async (): Promise<void> => {
      for await (const part of pace.statements(blocks, { oldestAppendedAt: Date.now(), signal: lost.signal }))
        await pace.measured(() => Promise.resolve(parts.push(part)))
    }
    await expect(run()).rejects.toThrow('lost')
    expect(parts).toHaveLength(1)
  })

  test('take a row without a time, and are not misled by a property of this name', async () => {
    const strange = [
      '{"event_id":"none"}',
      '{"event_id":"text","timestamp":"noon"}',
      JSON.stringify({ event_id: 'named', properties: { timestamp: '7', x: '"timestamp":1' }, timestamp: months[9] }),
      JSON.stringify({ event_id: 'plain', timestamp: (months[9] ?? 0) + 1 }),
      ...rows.slice(0, 7),
    ]
    const given = [{ ...blockOfRows(0, strange), offset: 1n }]
    const [first, second] = await statementsOf(backfillPace(always, exactClock), given, { oldestAppendedAt: 0 })
    expect(ids(first?.lines.slice(0, 4) ?? [])).toStrictEqual(['named', 'none', 'plain', 'text'])
    expect([first?.lines.length, second?.lines.length]).toStrictEqual([10, 1])
  })
})

describe('turns', () => {
  test('come one after the other, in the order of the calls, and one that is ended twice ends no other', async () => {
    const pace = backfillPace(never, exactClock)
    const order: number[] = []
    const take = async (n: number) => {
      const release = await pace.turn()
      order.push(n)
      return release
    }
    const first = await take(1)
    const others = [take(2), take(3)]
    await new Promise(setImmediate)
    expect(order).toStrictEqual([1])
    first()
    const second = await others[0]
    first()
    await new Promise(setImmediate)
    expect(order).toStrictEqual([1, 2])
    second?.()
    await others[1]
    expect(order).toStrictEqual([1, 2, 3])
  })
})
