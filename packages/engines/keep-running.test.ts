import { describe, expect, test } from '@jest/globals'
import { keepRunning, type EngineProcess } from './keep-running.ts'
import { waitUntil } from './processes.ts'

/** An engine in which nothing runs: ends when told to. */
function fakeProcess(pid: number): EngineProcess & { crash(): void } {
  const { promise: exited, resolve } = Promise.withResolvers<string>()
  return {
    pid,
    exited,
    crash: () => {
      resolve('signal SIGSEGV')
    },
    stop: () => {
      resolve('code 0')
      return Promise.resolve()
    },
  }
}

describe('keepRunning', () => {
  test('throws what kept the first start from succeeding', async () => {
    await expect(keepRunning('Test', () => Promise.reject(new Error('no disk')))).rejects.toThrow('no disk')
  })

  test('starts an engine again that ended, also when that fails at first', async () => {
    const first = fakeProcess(1)
    const starts = [
      () => Promise.resolve(first),
      () => Promise.reject(new Error('not now')),
      () => Promise.resolve(fakeProcess(2)),
    ]
    const engine = await keepRunning('Test', () => starts.shift()?.() ?? Promise.reject(new Error('too often')))
    first.crash()
    await waitUntil(() => engine.pid === 2, 'the second life', 5_000)
    await engine.stop()
    await engine.exited
    expect(starts).toEqual([])
  })

  test('does not start it again after stop, not even between two attempts', async () => {
    const first = fakeProcess(1)
    let starts = 0
    const engine = await keepRunning('Test', () => {
      starts += 1
      return starts === 1 ? Promise.resolve(first) : Promise.reject(new Error('not now'))
    })
    first.crash()
    await waitUntil(() => starts === 3, 'a second attempt', 5_000)
    await engine.stop()
    await engine.exited
    expect(starts).toBe(3)
  })
})
