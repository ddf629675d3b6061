import { expect, test } from '@jest/globals'
import type { CommittedOffset } from '@sluice/event-log/log'
import { createMetrics } from '@sluice/runtime/metrics'
import { virtualClock } from '../../../tests/support/virtual-clock.ts'
import { blockOfRows, event } from '../../../tests/support/writer.ts'
import { importMetrics } from './metrics.ts'
import { publishPace, WritersStalledError } from './publish-pace.ts'

const signal = new AbortController().signal
const block = blockOfRows(
  0,
  Array.from({ length: 1_000 }, (_, n) => event(String(n))),
)

/** A pace on two logs whose positions the test sets. */
function start() {
  const clock = virtualClock(1_000_000)
  const lanes = { live: { next: 0, end: 0 }, old: { next: 0, end: 0 } }
  const positionsOf = (lane: keyof typeof lanes) => () =>
    Promise.resolve<CommittedOffset[]>([
      { partition: 0, offset: BigInt(lanes[lane].next), endOffset: BigInt(lanes[lane].end) },
      { partition: 1, offset: 5n, endOffset: 5n },
    ])
  const metrics = importMetrics(createMetrics())
  const pace = publishPace({
    log: { committedOffsets: positionsOf('live') },
    backfill: { committedOffsets: positionsOf('old') },
    group: () => Promise.resolve('group'),
    clock,
    metrics,
  })
  /** What a wait has come to so far, of a unit of its own unless one is given. */
  function wait(unit = pace.startUnit()) {
    const state: { clear?: true; error?: unknown } = {}
    void unit.waitUntilClear([block], { signal }).then(
      () => {
        state.clear = true
      },
      (error: unknown) => {
        state.error = error
      },
    )
    return state
  }
  return { clock, lanes, pace, wait, metrics }
}

async function advance(clock: ReturnType<typeof virtualClock>, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) await clock.advance(50)
}

test('imports wait for nothing while the writers have everything', async () => {
  const { clock, wait } = start()
  const state = wait()
  await clock.advance(0)
  expect(state).toStrictEqual({ clear: true })
})

test('imports go on beside live events that are stored within 0.3 s', async () => {
  const { clock, lanes, wait } = start()
  lanes.live = { next: 10, end: 12 }
  const state = wait()
  for (let step = 0; step < 12 && state.clear === undefined; step++) {
    await clock.advance(50)
    lanes.live.next++
    lanes.live.end++
  }
  expect(state).toStrictEqual({ clear: true })
})

test('imports wait while live events wait longer, and the wait is measured', async () => {
  const { clock, lanes, wait, metrics } = start()
  lanes.live = { next: 10, end: 40 }
  const state = wait()
  for (let step = 0; step < 60; step++) {
    await clock.advance(50)
    lanes.live.next++
    lanes.live.end++
  }
  expect(state).toStrictEqual({})
  const { values } = await metrics.pausedSeconds.get()
  expect(values[0]?.value).toBeGreaterThan(2.5)
  lanes.live.next = lanes.live.end
  await advance(clock, 200)
  expect(state).toStrictEqual({ clear: true })
})

test('imports wait while the backfill log holds some 500,000 rows that are not stored', async () => {
  const { clock, lanes, wait } = start()
  lanes.old = { next: 0, end: 500 }
  const full = wait()
  await advance(clock, 1_000)
  expect(full).toStrictEqual({})
  lanes.old.next = 1
  await advance(clock, 200)
  expect(full).toStrictEqual({ clear: true })
})

test('a unit ends when the writers store nothing of a full backfill log for 30 s, and not while they are slow', async () => {
  const { clock, lanes, pace, wait } = start()
  const unit = pace.startUnit()
  lanes.old = { next: 0, end: 600 }
  const slow = wait(unit)
  for (let minute = 0; minute < 4; minute++) {
    await advance(clock, 25_000)
    lanes.old.next++
  }
  expect(slow).toStrictEqual({})
  lanes.old.next = 600
  await advance(clock, 200)
  expect(slow).toStrictEqual({ clear: true })

  lanes.old.end = 1_200
  const stalled = wait(unit)
  await advance(clock, 29_000)
  expect(stalled).toStrictEqual({})
  await advance(clock, 1_500)
  expect(stalled).toStrictEqual({ error: expect.any(WritersStalledError) })
})

test('a unit goes on after 30 s in all where live events always wait longer, but not without room', async () => {
  const { clock, lanes, pace, wait } = start()
  lanes.live = { next: 0, end: 1 }
  const unit = pace.startUnit()
  const first = wait(unit)
  await advance(clock, 20_000)
  expect(first).toStrictEqual({})
  lanes.live.next = 1
  await advance(clock, 200)
  expect(first).toStrictEqual({ clear: true })

  lanes.live.next = 0
  lanes.old = { next: 0, end: 500 }
  const second = wait(unit)
  await advance(clock, 11_000)
  expect(second).toStrictEqual({})
  lanes.old.next = 500
  await advance(clock, 200)
  expect(second).toStrictEqual({ clear: true })

  const another = wait()
  await advance(clock, 29_000)
  expect(another).toStrictEqual({})
  await advance(clock, 2_000)
  expect(another).toStrictEqual({ clear: true })
})
