import { afterEach, expect, test } from '@jest/globals'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { unavailable } from './errors.ts'
import { startupTask } from './startup-task.ts'
import { FatalError, supervise, type Supervisor } from './supervisor.ts'
import { waitUntil } from './wait-until.ts'

const running: Supervisor[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((supervisor) => supervisor.stop()))
})

type Outcome = 'success' | Error

/** A task under a supervisor, whose attempts end as the script says; its last outcome is repeated. */
function createTask(script: readonly [Outcome, ...Outcome[]], retryMs = 1) {
  const { logger, lines } = capturedLogger()
  let attempts = 0
  let reports = 0
  const component = startupTask({
    name: 'a task',
    attempt: () => {
      const outcome = script[Math.min(attempts++, script.length - 1)]
      return outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve()
    },
    retryMs,
    onUnavailable: () => reports++,
  })
  const supervisor = supervise([component], logger, { firstMs: 1, longestMs: 1 })
  running.push(supervisor)
  return {
    attempts: () => attempts,
    reports: () => reports,
    lines,
    supervisor,
    waitForAttempts: (count: number) => waitUntil(() => attempts >= count, `${count} attempts`),
  }
}

const away = unavailable('the engine is unavailable')

test('a task that succeeds at the start is done once', async () => {
  const { supervisor, attempts, reports } = createTask(['success'])
  await supervisor.start()
  expect(attempts()).toBe(1)
  await supervisor.stop()
  expect(attempts()).toBe(1)
  expect(reports()).toBe(0)
})

test('a start while the engine is unavailable succeeds, is reported once, and the task is done later', async () => {
  const { supervisor, attempts, reports, lines, waitForAttempts } = createTask([away, away, away, 'success'])
  await supervisor.start()
  expect(reports()).toBe(1)
  await waitForAttempts(4)
  await supervisor.stop()
  expect(attempts()).toBe(4)
  expect(reports()).toBe(1)
  expect(lines()).toEqual([])
})

test('a failure that no retry can help fails the start', async () => {
  const { supervisor, attempts, reports } = createTask([new TypeError('a mistake')])
  await expect(supervisor.start()).rejects.toThrow('a mistake')
  expect(attempts()).toBe(1)
  expect(reports()).toBe(0)
})

test('a later failure that no retry can help reaches the supervisor, which repeats the task', async () => {
  const { supervisor, lines, waitForAttempts } = createTask([away, new TypeError('a mistake'), 'success'])
  await supervisor.start()
  await waitForAttempts(3)
  await supervisor.stop()
  expect(lines()).toEqual([
    expect.objectContaining({ level: 'error', component: 'a task', msg: 'component failed, restarting' }),
  ])
})

test('a later FatalError ends the service', async () => {
  const { supervisor } = createTask([away, new FatalError('a wrong schema')])
  await supervisor.start()
  expect(await supervisor.fatal).toMatchObject({ message: 'a wrong schema' })
})

test('neither a start nor a stop waits for an engine that hangs', async () => {
  let attempts = 0
  const component = startupTask({
    name: 'a task',
    attempt: () => {
      attempts++
      return new Promise(() => undefined)
    },
    retryMs: 1,
    startTimeoutMs: 10,
  })
  const supervisor = supervise([component], capturedLogger().logger)
  await supervisor.start()
  await waitUntil(() => attempts === 2, 'an attempt that hangs, too')
  await supervisor.stop()
  expect(attempts).toBe(2)
})

test('a stop ends the pause between two attempts without a further attempt', async () => {
  const { supervisor, attempts } = createTask([away], 3_600_000)
  await supervisor.start()
  await supervisor.stop()
  expect(attempts()).toBe(1)
})
