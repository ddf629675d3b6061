import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import { expect, test } from '@jest/globals'
import { settledOrAfter, withDeadline } from './deadline.ts'

const late = () => new Error('late')

test('settles as the work does', async () => {
  expect(await withDeadline(Promise.resolve(1), 60_000, late)).toBe(1)
  await expect(withDeadline(Promise.reject(new Error('own')), 60_000, late)).rejects.toThrow('own')
})

test('rejects work that takes longer', async () => {
  await expect(withDeadline(new Promise(() => undefined), 1, late)).rejects.toThrow('late')
})

test('takes the answer that arrived while the process was suspended past the deadline', async () => {
  for (let n = 0; n < 10; n++) {
    const { port1, port2 } = new MessageChannel()
    const answer = withDeadline(once(port1, 'message'), 1, late)
    // The answer is there before the end of the suspension, however busy the machine is.
    port2.postMessage('answer')
    const resumedAt = Date.now() + 50
    while (Date.now() < resumedAt);
    expect(await answer).toEqual(['answer'])
    port1.close()
  }
})

test('a wait ends when the work settles, whatever its outcome, or after its time', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  await settledOrAfter(Promise.resolve(), 60_000)
  await settledOrAfter(Promise.reject(new Error('own')), 60_000)
  await settledOrAfter(new Promise(() => undefined), 1)
  expect(timers()).toBe(before)
})
