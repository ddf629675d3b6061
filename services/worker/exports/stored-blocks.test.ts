import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { block, collect, type Collector } from '@sluice/event-log/conformance/collect'
import type { EventLog } from '@sluice/event-log/log'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { correctedClock } from '@sluice/runtime/clock'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { exactClock } from '../../../tests/support/clock.ts'
import { storedBlocks } from './stored-blocks.ts'

const group = 'writers'
let folder: string
let log: EventLog
/** Opened to let the writers store what they have read. */
let gate: PromiseWithResolvers<undefined>
let writers: Collector

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-stored-'))
  log = await openEventLog(`file:${join(folder, 'log')}`, { logger: silentLogger })
  gate = Promise.withResolvers()
  writers = collect(log, group, {}, async () => {
    await gate.promise
  })
})

afterEach(async () => {
  gate.resolve(undefined)
  await log.close()
  await writers.running
  await rm(folder, { recursive: true })
})

const publish = (name: string): Promise<void> => log.publish([block(1, name)], { timeoutMs: 10_000 })

/** Waits, and notes the end. */
function wait(timeoutMs = 60_000, signal = new AbortController().signal) {
  const state: { over?: boolean } = {}
  const done = storedBlocks({ logs: [log], group: () => Promise.resolve(group), clock: correctedClock(exactClock) })
    .wait({ signal, timeoutMs })
    .then((areStored) => {
      state.over = areStored
      return areStored
    })
  return { state, done }
}

test('what was acknowledged before is waited for until it is stored', async () => {
  await publish('before')
  const { state, done } = wait()
  // A wait that is over by its own timeout has asked the log meanwhile.
  expect(await wait(300).done).toBe(false)
  expect(state).toStrictEqual({})
  gate.resolve(undefined)
  expect(await done).toBe(true)
  expect(writers.committed).toStrictEqual(['before'])
})

test('a log without blocks, or whose blocks are stored, is not waited for', async () => {
  await wait().done
  gate.resolve(undefined)
  await publish('before')
  await wait().done
  await wait(0).done
})

test('a wait ends when it is aborted', async () => {
  await publish('before')
  const abort = new AbortController()
  const { done } = wait(60_000, abort.signal)
  abort.abort(new Error('the lease is lost'))
  await expect(done).rejects.toThrow('the lease is lost')
})
