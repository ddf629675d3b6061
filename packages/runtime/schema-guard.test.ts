import { expect, test } from '@jest/globals'
import { SluiceError, unavailable } from '@sluice/contracts/errors'
import { schemaGuard } from './schema-guard.ts'
import { FatalError, supervise } from './supervisor.ts'
import { capturedLogger } from './testing.ts'

const older = new SluiceError(500, {
  message: 'Internal server error',
  internal: 'The Postgres schema is older than this build. Run "npm run migrate".',
})

/** A check that does one thing after the other, the last one for ever. */
function scripted(...answers: (Error | undefined)[]): { check: () => Promise<void>; asked: () => number } {
  let asked = 0
  return {
    check: () => {
      const answer = answers[Math.min(asked++, answers.length - 1)]
      return answer ? Promise.reject(answer) : Promise.resolve()
    },
    asked: () => asked,
  }
}

test('the right schema is asked for once', async () => {
  const { check, asked } = scripted(undefined)
  const supervisor = supervise([schemaGuard('postgres', check, capturedLogger().logger, 1)], capturedLogger().logger)
  await supervisor.start()
  await supervisor.stop()
  expect(asked()).toBe(1)
})

test('a wrong schema fails the start and says what to do', async () => {
  const guard = schemaGuard('postgres', scripted(older).check, capturedLogger().logger, 1)
  await expect(guard.start?.()).rejects.toThrow(FatalError)
  await expect(guard.start?.()).rejects.toThrow('Run "npm run migrate"')
})

test('so does what is no answer about the schema at all', async () => {
  const guard = schemaGuard('postgres', scripted(new Error('no such database')).check, capturedLogger().logger, 1)
  await expect(guard.start?.()).rejects.toThrow(FatalError)
})

test('with the engine away the service starts; a wrong schema ends it as soon as the engine answers', async () => {
  const { logger, lines } = capturedLogger()
  const away = unavailable('Postgres: ECONNREFUSED')
  const { check, asked } = scripted(away, away, away, older)
  const supervisor = supervise([schemaGuard('postgres', check, logger, 1)], logger)
  await supervisor.start()
  expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', engine: 'postgres' })])
  expect((await supervisor.fatal).message).toContain('npm run migrate')
  expect(asked()).toBe(4)
  await supervisor.stop()
})

test('with the engine away the right schema is found later, and asked for no more', async () => {
  const { logger } = capturedLogger()
  const { promise: found, resolve } = Promise.withResolvers<undefined>()
  const { check, asked } = scripted(unavailable('away'), undefined)
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
  expect(asked()).toBe(2)
})

test('a stop does not wait for an engine that is away, and asks it no more', async () => {
  const { logger } = capturedLogger()
  const { check, asked } = scripted(unavailable('away'))
  const supervisor = supervise([schemaGuard('postgres', check, logger, 60_000)], logger)
  await supervisor.start()
  await supervisor.stop()
  expect(asked()).toBe(1)
})
