import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type EngineProcess, restartOnExit } from './restart-on-exit.ts'

/** An engine without a process, which the test ends. */
function fakeProcess(pid: number): EngineProcess & { crash(): void } {
  const { promise: exited, resolve } = Promise.withResolvers<string>()
  return {
    pid,
    exited,
    crash: () => resolve('signal SIGSEGV'),
    stop: () => {
      resolve('code 0')
      return Promise.resolve()
    },
  }
}

describe('restartOnExit', () => {
  test('throws the failure of the first start', async () => {
    await expect(restartOnExit('Test', () => Promise.reject(new Error('no disk')))).rejects.toThrow('no disk')
  })

  test('restarts an engine that ended, also after a restart that failed', async () => {
    const first = fakeProcess(1)
    const starts = [
      () => Promise.resolve(first),
      () => Promise.reject(new Error('not now')),
      () => Promise.resolve(fakeProcess(2)),
    ]
    const engine = await restartOnExit('Test', () => starts.shift()?.() ?? Promise.reject(new Error('too often')))
    first.crash()
    await waitUntil(() => engine.pid === 2, 'the second life')
    await engine.stop()
    await engine.exited
    expect(starts).toEqual([])
  })

  test('does not restart the engine after stop, not even between two attempts', async () => {
    const first = fakeProcess(1)
    let starts = 0
    const third = Promise.withResolvers<undefined>()
    const engine = await restartOnExit('Test', () => {
      starts += 1
      if (starts === 3) third.resolve(undefined)
      return starts === 1 ? Promise.resolve(first) : Promise.reject(new Error('not now'))
    })
    first.crash()
    await third.promise
    // The attempt has failed by then.
    await new Promise(setImmediate)
    await engine.stop()
    await engine.exited
    expect(starts).toBe(3)
  })
})
