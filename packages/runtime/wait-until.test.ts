import { afterEach, expect, jest, test } from '@jest/globals'
import { waitUntil } from './wait-until.ts'

afterEach(() => {
  jest.restoreAllMocks()
})

/** Sets the machine's clock by as many ms at each reading. */
function setClockBy(ms: number): void {
  let time = Date.now()
  jest.spyOn(Date, 'now').mockImplementation(() => (time += ms))
}

test('a wait is not longer when the clock is set back', async () => {
  setClockBy(-3_600_000)
  let checks = 0
  await expect(waitUntil(() => ++checks > 100, 'the sign', 30)).rejects.toThrow('the sign: not within 30 ms')
})

test('a wait is not shorter when the clock is set forward', async () => {
  setClockBy(3_600_000)
  let checks = 0
  await waitUntil(() => ++checks > 2, 'the sign')
})
