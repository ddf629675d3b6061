import { expect, test } from '@jest/globals'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { unavailable } from './errors.ts'
import { NotReadyError, readiness, type ReadyCheck, requiredUntilPassed } from './health.ts'

const well: ReadyCheck = { name: 'clickhouse', required: true, check: () => Promise.resolve() }

function failing(name: string, required: boolean, error: unknown): ReadyCheck {
  // A driver may throw a value of any type.
  // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
  return { name, required, check: () => Promise.reject(error) }
}

test('a service is ready when all checks pass, and without checks', async () => {
  expect(await readiness([well])).toStrictEqual({ missing: {}, degraded: {} })
  expect(await readiness([])).toStrictEqual({ missing: {}, degraded: {} })
})

test('a failed required check is named as missing, a failed optional one as degraded', async () => {
  const error = new Error('x')
  expect(await readiness([well, failing('postgres', true, error), failing('log', false, error)])).toStrictEqual({
    missing: { postgres: 'does not answer' },
    degraded: { log: 'does not answer' },
  })
  expect(await readiness([well, failing('log', false, error)])).toMatchObject({ missing: {} })
})

test('a dependency that is required until it has passed is degraded afterwards', async () => {
  let isAway = true
  const check = requiredUntilPassed({
    name: 'log',
    check: () => (isAway ? Promise.reject(new NotReadyError('away')) : Promise.resolve()),
  })
  const away = { missing: { log: 'away' }, degraded: {} }
  expect(await readiness([check])).toStrictEqual(away)
  expect(await readiness([check])).toStrictEqual(away)
  isAway = false
  expect(await readiness([check])).toStrictEqual({ missing: {}, degraded: {} })
  isAway = true
  expect(await readiness([check])).toStrictEqual({ missing: {}, degraded: { log: 'away' } })
})

test('the reason of a failure is a code or plain words, never an address or a credential', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED postgres://u:canary@10.0.0.7'), {
    code: 'ECONNREFUSED',
  })
  const checks = [
    failing('coded', true, refused),
    failing('plain', true, new Error('canary')),
    failing('numbered', true, Object.assign(new Error('canary'), { code: 516 })),
    failing('odd', true, 'canary'),
    failing('worded', true, new NotReadyError('not joined yet')),
    failing('alike', true, new Error('no answer of canary')),
    {
      name: 'sync',
      required: true,
      check: () => {
        throw new Error('canary')
      },
    },
  ]
  const { missing } = await readiness(checks)
  expect(missing).toStrictEqual({
    coded: 'ECONNREFUSED',
    plain: 'does not answer',
    numbered: 'does not answer',
    odd: 'does not answer',
    worded: 'not joined yet',
    alike: 'does not answer',
    sync: 'does not answer',
  })
})

test('the reason is the name of the cause where an engine wraps its failure, and the log gets the whole text', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7'), { code: 'ECONNREFUSED' })
  const unknownTopic = Object.assign(new Error('canary'), { type: 'UNKNOWN_TOPIC_OR_PARTITION', code: 3 })
  const checks = [
    failing('postgres', true, unavailable('Postgres: connect ECONNREFUSED 10.0.0.7', refused)),
    failing('log', true, unavailable('Kafka has no topic', new Error('retries exceeded', { cause: unknownTopic }))),
    failing('address', true, Object.assign(new Error('canary'), { type: 'canary.example', code: '10.0.0.7' })),
    failing('redis', false, unavailable('Redis: it closed the connection')),
  ]
  const logged: Record<string, string> = {}
  const onFailure = (name: string, reason: string): void => {
    logged[name] = reason
  }
  expect(await readiness(checks, { onFailure })).toStrictEqual({
    missing: { postgres: 'ECONNREFUSED', log: 'UNKNOWN_TOPIC_OR_PARTITION', address: 'does not answer' },
    degraded: { redis: 'does not answer' },
  })
  expect(logged).toStrictEqual({
    postgres: 'Postgres: connect ECONNREFUSED 10.0.0.7',
    log: 'Kafka has no topic',
    address: 'canary',
    redis: 'Redis: it closed the connection',
  })
})

test('a check that does not settle in time fails without delaying the others, which start at once', async () => {
  const asked: string[] = []
  const silent = (name: string, required: boolean): ReadyCheck => ({
    name,
    required,
    check: () => {
      asked.push(name)
      return new Promise(() => undefined)
    },
  })
  const elapsedMs = startStopwatch()
  const answer = readiness([silent('a', true), silent('b', false), well], { timeoutMs: 100 })
  expect(asked).toStrictEqual(['a', 'b'])
  expect(await answer).toStrictEqual({
    missing: { a: 'no answer within 100 ms' },
    degraded: { b: 'no answer within 100 ms' },
  })
  expect(elapsedMs()).toBeLessThan(5_000)
})

test('a check that rejects after its timeout causes no unhandled rejection', async () => {
  const { promise, reject } = Promise.withResolvers<never>()
  await readiness([{ name: 'late', required: true, check: () => promise }], { timeoutMs: 10 })
  reject(new Error('late'))
  await expect(promise).rejects.toThrow('late')
})
