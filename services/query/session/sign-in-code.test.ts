import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { hashKey } from '@sluice/access/api-key'
import type { NewKey } from '@sluice/access/keys'
import { hashToken } from '@sluice/http/authenticate'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithRedis, testRedis } from '../../../tests/support/engines/test-engines.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { createTestKey, whileLocked } from '../../../tests/support/test-postgres.ts'
import { createRedisUser, dumpRedis, fresh, type RedisUser } from '../../../tests/support/test-redis.ts'

let addresses = 0

describeWithRedis('a sign-in code is used up only by the sign-in that succeeds', () => {
  let query: TestQuery
  let redis: RedisUser
  /** The beginning of the keys of this test alone. */
  let prefix: string

  beforeAll(async () => {
    redis = await createRedisUser(testRedis()?.url ?? '')
    prefix = new URL(redis.url).searchParams.get('prefix') ?? ''
    query = await startQuery({ redisUrl: redis.url, trustedProxies: ['loopback'], keyLookupTimeoutMs: 1_000 })
  })

  afterAll(async () => {
    await query.stop()
    await redis.drop()
  })

  const open = (body: unknown, address = `203.0.113.${addresses++}`) =>
    query.request('/api/v1/session', { method: 'POST', key: '', body, headers: { 'X-Forwarded-For': address } })

  async function newCode(parts: Partial<NewKey> = {}): Promise<{ code: string; key: string; keyId: string }> {
    const { key, keyId } = await createTestKey(query.keys, { scopes: ['stats:read'], ...parts })
    const code = fresh('code')
    await query.signInCodes.create(hashToken(code), { keyHash: hashKey(key) })
    return { code, key, keyId }
  }

  // In alphabetical order: Redis scans the same keys in another order after it has resized its table.
  const sessionsInRedis = async (): Promise<string[]> =>
    Object.keys(await dumpRedis(redis.url))
      .filter((name) => name.startsWith(`${prefix}session:`))
      .sort()

  test('not by one that is refused with 429, because the key has opened as many sessions as it may', async () => {
    const { code, key, keyId } = await newCode({ rateLimits: { admin_per_minute: 1 } })
    expect((await open({ api_key: key })).status).toBe(201)
    expect((await open({ code })).status).toBe(429)
    const changed = { rate_limits: { admin_per_minute: 100 } }
    const { status } = await query.request(`/api/v1/settings/keys/${keyId}`, { method: 'PUT', body: changed })
    expect(status).toBe(200)
    let last = 0
    await waitUntil(async () => (last = (await open({ code })).status) !== 429, 'the key has its new limit')
    expect(last).toBe(201)
    expect((await open({ code })).status).toBe(401)
  })

  test('not by one that is refused with 503, because Postgres does not answer', async () => {
    const { code } = await newCode()
    await whileLocked(query.postgres, 'api_keys', async () => {
      expect((await open({ code })).status).toBe(503)
    })
    let last = 0
    await waitUntil(async () => (last = (await open({ code })).status) !== 503, 'Postgres answers')
    expect(last).toBe(201)
  })

  test.each([
    ['the session can not be stored', 'hset'],
    ['the code can not be taken', 'getdel'],
  ])('not by one that is refused with 503, because %s', async (_why, command) => {
    const { code } = await newCode()
    const before = await sessionsInRedis()
    await redis.forbid(command)
    try {
      expect((await open({ code })).status).toBe(503)
    } finally {
      await redis.allow(command)
    }
    expect(await sessionsInRedis()).toStrictEqual(before)
    expect((await open({ code })).status).toBe(201)
    expect((await open({ code })).status).toBe(401)
  })

  test('and by one of many that come at once: the others open no session, and cost the key nothing', async () => {
    const { code, key } = await newCode({ rateLimits: { admin_per_minute: 21 } })
    const before = await sessionsInRedis()
    const answers = await Promise.all(Array.from({ length: 20 }, () => open({ code })))
    expect(answers.map(({ status }) => status).sort()).toStrictEqual([201, ...Array<number>(19).fill(401)])
    expect(await sessionsInRedis()).toHaveLength(before.length + 1)
    for (let n = 0; n < 20; n++) expect((await open({ api_key: key })).status).toBe(201)
    expect((await open({ api_key: key })).status).toBe(429)
  })

  test('one that comes too late counts as a failed attempt', async () => {
    const { code } = await newCode()
    const address = `203.0.113.${addresses++}`
    expect((await open({ code }, address)).status).toBe(201)
    for (let n = 0; n < 10; n++) expect((await open({ code }, address)).status).toBe(401)
    expect((await open({ code }, address)).status).toBe(429)
  })
})
