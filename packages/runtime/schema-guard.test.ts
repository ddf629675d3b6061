import { expect, test } from '@jest/globals'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { AppError, unavailable } from './errors.ts'
import { schemaGuard } from './schema-guard.ts'
import { FatalError, supervise } from './supervisor.ts'

const older = new AppError('internal', {
  message: 'Internal server error',
  internal: 'The Postgres schema is older than this build. Run "npm run migrate".',
})

/** A check whose outcomes the test lists; the last outcome is repeated. */
function scriptedCheck(...outcomes: (Error | undefined)[]): { check: () => Promise<void>; callCount: () => number } {
  let callCount = 0
  return {
    check: () => {
      const outcome = outcomes[Math.min(callCount++, outcomes.length - 1)]
      return outcome ? Promise.reject(outcome) : Promise.resolve()
    },
    callCount: () => callCount,
  }
}

test('a correct schema is checked once', async () => {
  const { check, callCount } = scriptedCheck(undefined)
  const supervisor = supervise([schemaGuard('postgres', check, capturedLogger().logger, 1)], capturedLogger().logger)
  await supervisor.start()
  await supervisor.stop()
  expect(callCount()).toBe(1)
})

test('a wrong schema fails the start and says what to do', async () => {
  const guard = schemaGuard('postgres', scriptedCheck(older).check, capturedLogger().logger, 1)
  await expect(guard.start?.()).rejects.toThrow(FatalError)
  await expect(guard.start?.()).rejects.toThrow('Run "npm run migrate"')
})

test('a check that fails for another reason than the schema fails the start', async () => {
  const guard = schemaGuard('postgres', scriptedCheck(new Error('no such database')).check, capturedLogger().logger, 1)
  await expect(guard.start?.()).rejects.toThrow(FatalError)
})

test('an engine that refuses the password fails the start, although a later attempt may succeed', async () => {
  const refused = new AppError('unavailable', {
    message: 'Service temporarily unavailable',
    internal: 'Postgres: password authentication failed for user "sluice"',
    retryable: true,
    needsOperator: true,
  })
  const guard = schemaGuard('postgres', scriptedCheck(refused).check, capturedLogger().logger, 1)
  await expect(guard.start?.()).rejects.toMatchObject({ name: 'FatalError', message: refused.internal })
})

test('the service starts while the engine is unavailable, and a wrong schema ends it as soon as the engine answers', async () => {
  const { logger, lines } = capturedLogger()
  const away = unavailable('Postgres: ECONNREFUSED')
  const { check, callCount } = scriptedCheck(away, away, away, older)
  const supervisor = supervise([schemaGuard('postgres', check, logger, 1)], logger)
  await supervisor.start()
  expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', engine: 'postgres' })])
  expect((await supervisor.fatal).message).toContain('npm run migrate')
  expect(callCount()).toBe(4)
  await supervisor.stop()
})

test('a check that succeeds once the engine is back is not repeated', async () => {
  const { logger } = capturedLogger()
  const { promise: found, resolve } = Promise.withResolvers<undefined>()
  const { check, callCount } = scriptedCheck(unavailable('away'), undefined)
  const guard = schemaGuard(
    'postgres',
    async () => {
      await check()
      resolve(undefined)
    },
    logger,
    1,
  )
  const supervisor = supervise([guard], logger)
  await supervisor.start()
  await found
  await supervisor.stop()
  expect(callCount()).toBe(2)
})

test('a stop does not wait for an engine that is unavailable, and no further check follows', async () => {
  const { logger } = capturedLogger()
  const { check, callCount } = scriptedCheck(unavailable('away'))
  const supervisor = supervise([schemaGuard('postgres', check, logger, 60_000)], logger)
  await supervisor.start()
  await supervisor.stop()
  expect(callCount()).toBe(1)
})
