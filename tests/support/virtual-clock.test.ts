import { expect, test } from '@jest/globals'
import { virtualClock } from './virtual-clock.ts'

test('sleepers wake in the order of their times, each at its time, those that sleep again too', async () => {
  const clock = virtualClock(1_000)
  const woken: [string, number][] = []
  const sleepTwice = async (name: string, ms: number): Promise<void> => {
    for (let time = 0; time < 2; time++) {
      await clock.sleep(ms)
      woken.push([name, clock.now()])
    }
  }
  void sleepTwice('slow', 500)
  void sleepTwice('fast', 200)
  await clock.advance(199)
  expect(woken).toStrictEqual([])
  await clock.advance(700)
  expect(woken).toStrictEqual([
    ['fast', 1_200],
    ['fast', 1_400],
    ['slow', 1_500],
  ])
  expect(clock.now()).toBe(1_899)
  expect(clock.sleepers()).toBe(1)
})

test('an aborted sleep ends at once and is forgotten', async () => {
  const clock = virtualClock(0)
  const abort = new AbortController()
  const sleeping = clock.sleep(5, abort.signal)
  abort.abort()
  await sleeping
  await clock.sleep(5, abort.signal)
  expect(clock.sleepers()).toBe(0)
})
