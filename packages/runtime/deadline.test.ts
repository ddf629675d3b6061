import { stat } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { withDeadline } from './deadline.ts'

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
    const answer = withDeadline(stat('.'), 1, late)
    const resumedAt = Date.now() + 50
    while (Date.now() < resumedAt);
    expect((await answer).isDirectory()).toBe(true)
  }
})
