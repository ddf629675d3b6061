import { expect, test } from '@jest/globals'
import { correctedClock } from './clock.ts'
import { synchronizedClock } from './synchronized-clock.ts'

test.each([3_600_000, -3_600_000])(
  'the clock shows the corrected time, also when the one of the machine is set by %i ms',
  async (set) => {
    const machine = { wall: 1_767_225_600_000, steady: 7 }
    const synchronized = synchronizedClock({ wall: () => machine.wall, steady: () => machine.steady })
    const clock = correctedClock(synchronized)
    expect([clock.now(), clock.isCompared?.()]).toEqual([machine.wall, false])
    const time = machine.wall + 60_000
    await synchronized.compare(() => Promise.resolve(time))
    expect([clock.now(), clock.isCompared?.()]).toEqual([time, true])
    machine.wall += set
    expect(clock.now()).toBe(time)
    machine.steady += 500
    expect(clock.now()).toBe(time + 500)
    await synchronized.compare(() => Promise.resolve(time + 500))
    expect(clock.now()).toBe(time + 500)
  },
)

test('a sleep lasts for its time, or until its signal aborts', async () => {
  const clock = correctedClock({ steady: () => Date.now(), earliest: () => Date.now() })
  const startedAt = performance.now()
  await clock.sleep(30)
  // Timers round to whole milliseconds.
  expect(performance.now() - startedAt).toBeGreaterThan(28)
  const abort = new AbortController()
  const sleeping = clock.sleep(600_000, abort.signal)
  abort.abort()
  await sleeping
  await clock.sleep(600_000, abort.signal)
})
