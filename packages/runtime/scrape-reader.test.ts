import { expect, test } from '@jest/globals'
import { scrapeReader } from './metrics.ts'
import { waitUntil } from './wait-until.ts'

test('a gauge of an engine shows the last value while the engine fails or hangs, and asks it once at a time', async () => {
  const hanging = Promise.withResolvers<number>()
  const answers: (() => Promise<number>)[] = [
    () => Promise.resolve(1),
    () => Promise.reject(new Error('away')),
    () => hanging.promise,
  ]
  let asked = 0
  const read = scrapeReader(() => answers[asked++]?.() ?? Promise.resolve(4), { msMax: 50 })
  expect(await read()).toBe(1)
  expect(await read()).toBe(1)
  expect(await Promise.all([read(), read()])).toEqual([1, 1])
  expect(await read()).toBe(1)
  expect(asked).toBe(3)
  hanging.resolve(3)
  await waitUntil(async () => (await read()) === 4, 'the engine is asked again')
})

test('a gauge of an engine that has not answered yet has no value', async () => {
  const read = scrapeReader(() => new Promise<number>(() => undefined), { msMax: 50 })
  expect(await read()).toBeUndefined()
})
