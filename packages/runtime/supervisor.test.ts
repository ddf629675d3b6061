import { describe, expect, test } from '@jest/globals'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { sleep } from './sleep.ts'
import { type Component, FatalError, supervise } from './supervisor.ts'

const pauses = { firstMs: 5, longestMs: 20 }

/** A component that records the calls of its functions. */
function recorded(name: string, events: string[]): Component {
  return {
    name,
    start: () => {
      events.push(`start ${name}`)
      return Promise.resolve()
    },
    run: async (signal) => {
      events.push(`run ${name}`)
      await sleep(60_000, signal)
      events.push(`end ${name}`)
    },
    stop: () => {
      events.push(`stop ${name}`)
      return Promise.resolve()
    },
  }
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  await sleep(60_000, signal)
}

test('components start in order and stop in reverse, each after its run has settled', async () => {
  const events: string[] = []
  const supervisor = supervise(
    ['a', 'b', 'c'].map((name) => recorded(name, events)),
    capturedLogger().logger,
  )
  await supervisor.start()
  expect(events).toStrictEqual(['start a', 'run a', 'start b', 'run b', 'start c', 'run c'])
  events.length = 0
  await supervisor.stop()
  expect(events).toStrictEqual(['end c', 'stop c', 'end b', 'stop b', 'end a', 'stop a'])
  expect(supervisor.failures()).toStrictEqual([])
})

test('components that stop together are both told to before either has ended', async () => {
  const events: string[] = []
  const bothStop = Promise.withResolvers<undefined>()
  let stopping = 0
  const waiting = (name: string): Component => ({
    ...recorded(name, events),
    run: async (signal) => {
      await untilAborted(signal)
      if (++stopping === 2) bothStop.resolve(undefined)
      await bothStop.promise
    },
  })
  const supervisor = supervise(
    [recorded('first', events), waiting('a'), { ...waiting('b'), stopsWithPrevious: true }, recorded('last', events)],
    capturedLogger().logger,
  )
  await supervisor.start()
  events.length = 0
  await supervisor.stop()
  expect(events.slice(0, 2)).toStrictEqual(['end last', 'stop last'])
  expect(events.slice(2, 4).sort()).toStrictEqual(['stop a', 'stop b'])
  expect(events.slice(4)).toStrictEqual(['end first', 'stop first'])
})

test('a stop during the start waits for the component that starts, and starts no other one', async () => {
  const events: string[] = []
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const slow = { ...recorded('slow', events), start: () => promise }
  const supervisor = supervise([recorded('first', events), slow, recorded('next', events)], capturedLogger().logger)
  const started = supervisor.start()
  await new Promise(setImmediate)
  const stopped = supervisor.stop()
  await new Promise(setImmediate)
  expect(events).toStrictEqual(['start first', 'run first'])
  resolve(undefined)
  await Promise.all([started, stopped])
  expect(events.slice(2)).toStrictEqual(['run slow', 'end slow', 'stop slow', 'end first', 'stop first'])
})

test('a component starts when the previous one has started', async () => {
  const events: string[] = []
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const supervisor = supervise(
    [{ name: 'slow', start: () => promise }, recorded('next', events)],
    capturedLogger().logger,
  )
  const started = supervisor.start()
  await new Promise(setImmediate)
  expect(events).toStrictEqual([])
  resolve(undefined)
  await started
  expect(events).toStrictEqual(['start next', 'run next'])
  await supervisor.stop()
})

test('a component that fails to start stops those that were started and leaves the others alone', async () => {
  const events: string[] = []
  const supervisor = supervise(
    [
      recorded('a', events),
      recorded('b', events),
      { ...recorded('broken', events), start: () => Promise.reject(new Error('port in use')) },
      recorded('never', events),
    ],
    capturedLogger().logger,
  )
  await expect(supervisor.start()).rejects.toThrow('port in use')
  expect(events).toStrictEqual(['start a', 'run a', 'start b', 'run b', 'end b', 'stop b', 'end a', 'stop a'])
})

test('a component may have nothing but a start or a stop', async () => {
  const closed: string[] = []
  const supervisor = supervise(
    [
      { name: 'opens', start: () => Promise.resolve() },
      {
        name: 'closes',
        stop: () => {
          closed.push('closes')
          return Promise.resolve()
        },
      },
    ],
    capturedLogger().logger,
  )
  await supervisor.start()
  await supervisor.stop()
  await supervisor.stop()
  expect(closed).toStrictEqual(['closes'])
})

describe('a run that fails', () => {
  test('is repeated after a delay that doubles, is named meanwhile, and does not affect the other components', async () => {
    const events: string[] = []
    const { logger, lines } = capturedLogger()
    const { promise: recovered, resolve } = Promise.withResolvers<undefined>()
    let tries = 0
    const failing: Component = {
      name: 'failing',
      run: async (signal) => {
        tries++
        if (tries <= 5) throw new Error(`failure ${tries}`)
        resolve(undefined)
        await untilAborted(signal)
      },
    }
    const supervisor = supervise([recorded('sibling', events), failing], logger, pauses)
    await supervisor.start()
    await new Promise(setImmediate)
    expect(supervisor.failures()).toStrictEqual(['failing'])
    await recovered
    expect(supervisor.failures()).toStrictEqual([])
    expect(events).toStrictEqual(['start sibling', 'run sibling'])
    expect(lines().map(({ retry_in_ms }) => retry_in_ms)).toStrictEqual([5, 10, 20, 20, 20])
    expect(lines()[0]).toMatchObject({ level: 'error', component: 'failing', err: { message: 'failure 1' } })
    await supervisor.stop()
  })

  test('after a recovery is repeated after the first delay again', async () => {
    const { logger, lines } = capturedLogger()
    const { promise: done, resolve } = Promise.withResolvers<undefined>()
    let tries = 0
    const failing: Component = {
      name: 'failing',
      run: async (signal) => {
        tries++
        if (tries === 4) await sleep(pauses.longestMs * 2, signal)
        if (tries > 4) {
          resolve(undefined)
          await untilAborted(signal)
          return
        }
        throw new Error('failure')
      },
    }
    const supervisor = supervise([failing], logger, pauses)
    await supervisor.start()
    await done
    expect(lines().map(({ retry_in_ms }) => retry_in_ms)).toStrictEqual([5, 10, 20, 5])
    await supervisor.stop()
  })

  test('does not delay the stop of the service', async () => {
    const supervisor = supervise(
      [{ name: 'failing', run: () => Promise.reject(new Error('x')) }],
      capturedLogger().logger,
      { firstMs: 60_000, longestMs: 60_000 },
    )
    await supervisor.start()
    await new Promise(setImmediate)
    expect(supervisor.failures()).toStrictEqual(['failing'])
    await supervisor.stop()
  })

  test('while the service stops is logged and not repeated', async () => {
    const { logger, lines } = capturedLogger()
    let runs = 0
    const supervisor = supervise(
      [
        {
          name: 'clumsy',
          run: async (signal) => {
            runs++
            await untilAborted(signal)
            throw new Error('could not commit')
          },
        },
      ],
      logger,
      pauses,
    )
    await supervisor.start()
    await supervisor.stop()
    expect(runs).toBe(1)
    expect(lines()).toStrictEqual([
      expect.objectContaining({ component: 'clumsy', msg: 'component failed while stopping' }),
    ])
  })

  test('by throwing synchronously is treated alike', async () => {
    const { promise: ranAgain, resolve } = Promise.withResolvers<undefined>()
    let tries = 0
    const supervisor = supervise(
      [
        {
          name: 'sync',
          run: (signal) => {
            if (++tries === 1) throw new Error('at once')
            resolve(undefined)
            return untilAborted(signal)
          },
        },
      ],
      capturedLogger().logger,
      pauses,
    )
    await supervisor.start()
    await ranAgain
    await supervisor.stop()
  })
})

test('a run that resolves is not repeated', async () => {
  let runs = 0
  const done: Component = {
    name: 'once',
    run: () => {
      runs++
      return Promise.resolve()
    },
  }
  const supervisor = supervise([done], capturedLogger().logger, pauses)
  await supervisor.start()
  await sleep(20)
  expect(runs).toBe(1)
  await supervisor.stop()
})

test('a FatalError is reported once and its component is not run again', async () => {
  const events: string[] = []
  let runs = 0
  const supervisor = supervise(
    [
      recorded('sibling', events),
      {
        name: 'schema',
        run: () => {
          runs++
          return Promise.reject(new FatalError('older schema'))
        },
      },
    ],
    capturedLogger().logger,
    pauses,
  )
  await supervisor.start()
  expect(await supervisor.fatal).toMatchObject({ name: 'FatalError', message: 'older schema' })
  expect(supervisor.failures()).toStrictEqual([])
  await sleep(pauses.firstMs * 2)
  expect(runs).toBe(1)
  await supervisor.stop()
  expect(events).toContain('stop sibling')
})

test('the failure of a stop is logged and the other components are stopped', async () => {
  const events: string[] = []
  const { logger, lines } = capturedLogger()
  const supervisor = supervise(
    [recorded('a', events), { ...recorded('b', events), stop: () => Promise.reject(new Error('broken pipe')) }],
    logger,
  )
  await supervisor.start()
  await supervisor.stop()
  expect(events).toContain('stop a')
  expect(lines()).toStrictEqual([expect.objectContaining({ component: 'b', msg: 'component failed to stop' })])
})
