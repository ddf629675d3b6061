import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, expect, test } from '@jest/globals'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { type AppError, unavailable } from './errors.ts'
import { poller, type PollerOptions } from './poller.ts'
import { supervise, type Supervisor } from './supervisor.ts'
import { waitUntil } from './wait-until.ts'

const running: Supervisor[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((supervisor) => supervisor.stop()))
})

type Outcome = 'success' | Error

/** A poller under a supervisor, whose polls end as the script says; its last outcome is repeated. */
function createPoller(script: readonly [Outcome, ...Outcome[]], options: Partial<PollerOptions> = {}) {
  const { logger, lines } = capturedLogger()
  const failures: AppError[] = []
  let polls = 0
  const component = poller({
    name: 'a poller',
    intervalMs: 1,
    poll: () => {
      const outcome = script[Math.min(polls++, script.length - 1)]
      return outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve()
    },
    onUnavailable: (error) => failures.push(error),
    ...options,
  })
  const supervisor = supervise([component], logger, { firstMs: 1, longestMs: 1 })
  running.push(supervisor)
  return {
    component,
    failures,
    lines,
    polls: () => polls,
    start: () => supervisor.start(),
    stop: () => supervisor.stop(),
    waitForPolls: (count: number) => waitUntil(() => polls >= count, `${count} polls`),
  }
}

const away = unavailable('the engine is unavailable')

test('a poller polls again and again until it is stopped', async () => {
  const { start, stop, polls, waitForPolls } = createPoller(['success'])
  await start()
  await waitForPolls(5)
  await stop()
  const pollsAtStop = polls()
  await new Promise(setImmediate)
  expect(polls()).toBe(pollsAtStop)
})

test.each([false, true])(
  'a poll that failed is soon repeated, whatever the interval: at the start %j',
  async (pollsAtStart) => {
    const options = { intervalMs: 3_600_000, unavailableMsMax: 1, pollsAtStart }
    const { start, polls, stop } = createPoller([away, away, 'success'], options)
    await start()
    await waitUntil(() => polls() === 3, 'three polls')
    await stop()
    expect(polls()).toBe(3)
  },
)

test('a stop ends the pause between two polls', async () => {
  const { start, stop, polls, waitForPolls } = createPoller(['success'], { intervalMs: 3_600_000 })
  await start()
  await waitForPolls(1)
  await stop()
  expect(polls()).toBe(1)
})

test('several polls in a row that find the engine unavailable are reported once, and again after a success', async () => {
  const { start, stop, failures, lines, waitForPolls } = createPoller([
    away,
    away,
    away,
    'success',
    unavailable('the engine is unavailable a second time'),
    'success',
  ])
  await start()
  await waitForPolls(7)
  await stop()
  expect(failures.map(({ internal }) => internal)).toEqual([
    'the engine is unavailable',
    'the engine is unavailable a second time',
  ])
  expect(lines()).toEqual([])
})

test('a failure that no retry can help reaches the supervisor, which runs the poller again', async () => {
  const { start, stop, failures, lines, waitForPolls } = createPoller([new TypeError('a mistake'), 'success'])
  await start()
  await waitForPolls(3)
  await stop()
  expect(failures).toEqual([])
  expect(lines()).toEqual([
    expect.objectContaining({ level: 'error', component: 'a poller', msg: 'component failed, restarting' }),
  ])
})

test('a start without pollsAtStart does not wait for the first poll', async () => {
  const neverEnds = Promise.withResolvers<undefined>()
  const { start, stop } = createPoller(['success'], { poll: () => neverEnds.promise })
  await start()
  neverEnds.resolve(undefined)
  await stop()
})

test('a start with pollsAtStart ends after the first poll, and the second poll follows after the pause', async () => {
  const { start, stop, polls } = createPoller(['success'], { pollsAtStart: true, intervalMs: 3_600_000 })
  await start()
  expect(polls()).toBe(1)
  await stop()
  expect(polls()).toBe(1)
})

test('a start with pollsAtStart succeeds while the engine is unavailable', async () => {
  const { start, failures, waitForPolls } = createPoller([away, away, 'success'], { pollsAtStart: true })
  await start()
  expect(failures).toEqual([away])
  await waitForPolls(4)
  expect(failures).toEqual([away])
})

test('a start with pollsAtStart fails on a failure that no retry can help', async () => {
  const { start } = createPoller([new TypeError('a mistake')], { pollsAtStart: true })
  await expect(start()).rejects.toThrow('a mistake')
})

test('the stop callback is called once, after the last poll', async () => {
  const calls: string[] = []
  const { start, stop } = createPoller(['success'], {
    poll: async () => {
      await new Promise(setImmediate)
      calls.push('poll')
    },
    stop: () => {
      calls.push('stop')
      return Promise.resolve()
    },
  })
  await start()
  await waitUntil(() => calls.length > 2, 'polls')
  await stop()
  expect(calls.indexOf('stop')).toBe(calls.length - 1)
})

test('the stop callback is called although a failed poll waits for its restart', async () => {
  let isStopped = false
  const failing = poller({
    name: 'failing',
    intervalMs: 1,
    poll: () => Promise.reject(new TypeError('a mistake')),
    stop: () => {
      isStopped = true
      return Promise.resolve()
    },
  })
  const { logger } = capturedLogger()
  const supervisor = supervise([failing], logger, { firstMs: 3_600_000, longestMs: 3_600_000 })
  await supervisor.start()
  await waitUntil(() => supervisor.failures().length > 0, 'the failure')
  await supervisor.stop()
  expect(isStopped).toBe(true)
})

test('polls leave nothing in memory', async () => {
  const polling = createPoller(['success'], { intervalMs: 0 })
  await polling.start()
  await polling.waitForPolls(500)
  const before = heapBytes()
  await polling.waitForPolls(3_500)
  // Each reaction on a promise that lasts takes 300 bytes.
  expect(heapBytes() - before).toBeLessThan(300_000)
})

/** Bytes of the live objects. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  return process.memoryUsage().heapUsed
}
