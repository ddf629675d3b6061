import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { Redis as Client } from 'ioredis'
import type { Limiter } from '@sluice/access/limiter'
import { failureName } from '@sluice/runtime/health'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type CapturedLogger, capturedLogger } from '../../tests/support/captured-logger.ts'
import { describeWith } from '../../tests/support/describe-with.ts'
import { type LocalRedis, redisMissing, startRedis } from '../../tests/support/engines/redis.ts'
import { findFreePort } from '../../tests/support/free-port.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { createRedisUser, fresh, redisOpener, waitUntilRedisAnswers } from '../../tests/support/test-redis.ts'
import type { Redis } from './port.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-redis-faults-'))
const hasRedis = redisMissing() === undefined
const describeIfRuns = describeWith('Redis', hasRedis)
/** Longer than in production, so that an overloaded machine does not look like a Redis that does not reply. */
const replyTimeoutMs = 500
const { open, openAnswering } = redisOpener({ replyTimeoutMs })

const servers: LocalRedis[] = []
const clients: Client[] = []
const proxies: Server[] = []

/** Starts a server for one test. */
const start = async (settings: Record<string, string> = {}, port?: number): Promise<LocalRedis> => {
  const server = await startRedis({ dir: join(root, fresh('r')), settings, ...(port !== undefined && { port }) })
  servers.push(server)
  return server
}

/** A client of ioredis, for commands that Sluice does not send. */
const clientOf = (port: number, options: { db?: number; password?: string; tls?: ConnectionOptions } = {}): Client => {
  const client = new Client({ port, ...options })
  clients.push(client)
  return client
}

/** The port of a proxy in front of the server at `port`, which changes the replies. */
const proxyOf = async (port: number, change: (reply: string) => string): Promise<number> => {
  const proxy = createServer((inbound) => {
    const outbound = connect(port, '127.0.0.1')
    outbound.on('data', (reply) => inbound.write(change(reply.toString('latin1')), 'latin1'))
    inbound.pipe(outbound)
    for (const [one, other] of [
      [inbound, outbound],
      [outbound, inbound],
    ] as const) {
      one.on('error', () => undefined)
      one.once('close', () => other.destroy())
    }
  }).listen(0, '127.0.0.1')
  proxies.push(proxy)
  await once(proxy, 'listening')
  return (proxy.address() as AddressInfo).port
}

/** Ids of Sluice's connections. */
const connectionsOf = async (plainClient: Client): Promise<string[]> =>
  String(await plainClient.client('LIST')).match(/id=\d+(?=.* name=sluice )/g) ?? []

afterEach(async () => {
  for (const client of clients.splice(0)) client.disconnect()
  await Promise.all(servers.splice(0).map((server) => server.stop()))
  for (const proxy of proxies.splice(0)) proxy.close()
})

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

/** Consumes 1 until it is refused; returns the granted sum. */
const exhaust = async (limiter: Limiter, counter: string, limit: number): Promise<number> => {
  let granted = 0
  while ((await limiter.consume(counter, 1, limit)).granted) {
    granted++
    if (granted > limit) throw new Error('more than the limit was granted')
  }
  return granted
}

const unavailable = { code: 'unavailable', retryable: true, message: 'Service temporarily unavailable' }

/** Expects that everything that needs Redis is rejected at once. */
const expectClosed = async (redis: Redis): Promise<void> => {
  const elapsedMs = startStopwatch()
  await expect(redis.sessions.create('t', { keyHash: 'k' })).rejects.toMatchObject(unavailable)
  await expect(redis.sessions.find('t')).rejects.toMatchObject(unavailable)
  await expect(redis.sessions.delete('t')).rejects.toMatchObject(unavailable)
  await expect(redis.idempotency.claim('i', 'f', 'one', 'k')).rejects.toMatchObject(unavailable)
  await expect(redis.idempotency.complete('i', 'f', { status: 200, timestamp: 1 }, 'k')).rejects.toMatchObject(
    unavailable,
  )
  await expect(redis.idempotency.release('i', 'one')).rejects.toMatchObject(unavailable)
  await expect(redis.check()).rejects.toMatchObject(unavailable)
  // Seven calls that wait would take seven times as long.
  expect(elapsedMs()).toBeLessThan(3 * replyTimeoutMs)
}

const linesOf = ({ lines }: CapturedLogger, level: string): unknown[] =>
  lines()
    .filter((line) => line.level === level)
    .map(({ msg }) => msg)

const away = 'Redis unavailable: enforcing limits per process, refusing sessions and idempotent requests'

describeIfRuns('redis: unavailable at the start', () => {
  test('limits hold per process and all other calls are rejected until Redis is there', async () => {
    const port = await findFreePort()
    const captured = capturedLogger()
    const redis = open(`redis://127.0.0.1:${port}`, captured)
    const [counter, later] = [fresh(), fresh()]
    const consumptions = await Promise.all(
      Array.from({ length: 200 }, async () => redis.limiter.consume(counter, 1, 150)),
    )
    expect(consumptions.filter(({ granted }) => granted)).toHaveLength(150)
    expect(redis.limiter.peek(counter, 150).remaining).toBe(0)
    await redis.limiter.refund(counter, 10, 150)
    expect(await exhaust(redis.limiter, counter, 150)).toBe(10)
    await expectClosed(redis)
    await waitUntil(() => linesOf(captured, 'warn').length > 0, 'the line')

    const server = await start({}, port)
    await waitUntilRedisAnswers(redis)
    // Costs that this process granted are not granted again in the window.
    expect(await exhaust(redis.limiter, counter, 150)).toBe(0)
    await redis.limiter.consume(later, 40, 100)
    expect(await exhaust((await openAnswering(server.url)).limiter, later, 100)).toBe(60)
    expect(linesOf(captured, 'warn')).toEqual([away])
    expect(linesOf(captured, 'info')).toEqual(['Redis recovered'])
    expect(captured.lines()[0]).toMatchObject({ redis: `127.0.0.1:${port}`, error: expect.stringContaining('ECONN') })
  })
})

describeIfRuns('redis: behind a Sentinel', () => {
  test('the replica that a Sentinel has promoted is used, with the sessions that it has', async () => {
    const primary = await start({ requirepass: 'secret' })
    const copy = { requirepass: 'secret', masterauth: 'secret', replicaof: `127.0.0.1 ${primary.port}` }
    const replica = await start(copy)
    const replicaClient = clientOf(replica.port, { password: 'secret' })
    await waitUntil(async () => (await replicaClient.info('replication')).includes('link_status:up'), 'a replica')
    const settings = {
      'sentinel monitor main': `127.0.0.1 ${primary.port} 1`,
      'sentinel auth-pass main': 'secret',
      'sentinel down-after-milliseconds main': '500',
      'sentinel failover-timeout main': '5000',
    }
    const sentinel = await startRedis({ dir: join(root, fresh('s')), settings, sentinel: true })
    servers.push(sentinel)
    const sentinelClient = clientOf(sentinel.port)
    await waitUntil(
      async () => String(await sentinelClient.call('SENTINEL', 'REPLICAS', 'main')).includes(`:${replica.port}`),
      'the Sentinel knows the replica',
    )
    const captured = capturedLogger()
    const redis = await openAnswering(`redis+sentinel://:secret@127.0.0.1:${sentinel.port}/main?db=2`, captured)
    await redis.sessions.create('token', { keyHash: 'k' })
    await waitUntil(async () => (await replicaClient.info('keyspace')).includes('db2:keys=1'), 'the session is copied')

    await primary.kill()
    await waitUntil(() => linesOf(captured, 'warn').length > 0, 'the line')
    await waitUntilRedisAnswers(redis, 60_000)
    expect(await redis.sessions.find('token')).toMatchObject({ keyHash: 'k' })
    await redis.sessions.create('another', { keyHash: 'l' })
    expect(await replicaClient.info('replication')).toContain('role:master')
    expect(linesOf(captured, 'info')).toEqual(['Redis recovered'])
  })
})

describeIfRuns('redis: killed', () => {
  test('limits continue from the last known count, even after Redis has lost its data', async () => {
    const server = await start()
    const captured = capturedLogger()
    const [redis, other] = await Promise.all([openAnswering(server.url, captured), openAnswering(server.url)])
    const counter = fresh()
    await other.limiter.consume(counter, 600, 1_000)
    expect(await redis.limiter.consume(counter, 300, 1_000)).toMatchObject({ granted: true, remaining: 100 })
    const { resetAt } = redis.limiter.peek(counter, 1_000)

    await server.kill()
    await waitUntil(() => linesOf(captured, 'warn').length > 0, 'the line')
    await expectClosed(redis)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(100)
    expect(redis.limiter.peek(counter, 1_000)).toEqual({ remaining: 0, resetAt })

    await server.restart()
    await waitUntilRedisAnswers(redis)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(0)
    // After a refund the empty Redis counts again, in a window that ends later.
    const otherCounter = fresh()
    await redis.limiter.consume(otherCounter, 1, 10)
    await redis.limiter.refund(counter, 500, 1_000)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(500)
    expect(redis.limiter.peek(counter, 1_000)).toEqual({ remaining: 0, resetAt })
  })

  test('a window that was opened without Redis ends, and Redis counts the next one', async () => {
    const server = await start()
    const redis = await openAnswering(server.url, { times: { limitWindowSeconds: 2 } })
    const counter = fresh()
    await server.kill()
    expect(await exhaust(redis.limiter, counter, 50)).toBe(50)
    await server.restart()
    await waitUntilRedisAnswers(redis)
    await waitUntil(async () => (await redis.limiter.consume(counter, 20, 50)).granted, 'a new window')
    expect(await exhaust((await openAnswering(server.url)).limiter, counter, 50)).toBe(30)
  })

  test('running calls settle, and no call waits for Redis', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    const counter = fresh()
    let slowest = 0
    let isOver = false
    const callers = Array.from({ length: 16 }, async (_, index) => {
      let granted = 0
      while (!isOver) {
        const elapsedMs = startStopwatch()
        if ((await redis.limiter.consume(`${counter}${index % 2}`, 1, 10_000_000)).granted) granted++
        slowest = Math.max(slowest, elapsedMs())
        await new Promise(setImmediate)
      }
      return granted
    })
    await waitUntil(() => redis.limiter.peek(`${counter}0`, 10_000_000).remaining < 10_000_000 - 500, 'calls')
    await server.kill()
    await waitUntil(
      () =>
        redis.check().then(
          () => false,
          () => true,
        ),
      'the failure of the check',
    )
    await server.restart()
    await waitUntilRedisAnswers(redis)
    isOver = true
    const granted = (await Promise.all(callers)).reduce((sum, each) => sum + each, 0)
    const known = [0, 1].map((index) => 10_000_000 - redis.limiter.peek(`${counter}${index}`, 10_000_000).remaining)
    expect((known[0] ?? 0) + (known[1] ?? 0)).toBe(granted)
    expect(slowest).toBeLessThan(2 * replyTimeoutMs)
  })
})

describeIfRuns('redis: frozen', () => {
  test('one call waits for the reply time-out, later calls do not wait, and sessions are rejected at once', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const counter = fresh()
    await redis.limiter.consume(counter, 40, 1_000)
    server.pause()
    const started = performance.now()
    const elapsedMs = startStopwatch()
    // Each call has another limit, so that no two calls share a batch.
    const waiting = [0, 1, 2, 3, 4, 5, 6, 7].map(async (more) => redis.limiter.consume(counter, 20, 1_000 + more))
    expect((await Promise.all(waiting)).map(({ remaining }) => remaining)).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((more) => 940 + more - 20 * more),
    )
    expect(performance.now() - started).toBeGreaterThanOrEqual(replyTimeoutMs - 1)
    // Eight calls in turn would wait eight times.
    expect(elapsedMs()).toBeLessThan(3 * replyTimeoutMs)

    const secondElapsedMs = startStopwatch()
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(800)
    expect(secondElapsedMs()).toBeLessThan(replyTimeoutMs)
    await expectClosed(redis)

    server.resume()
    await waitUntilRedisAnswers(redis, 1_000)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(0)
    expect(linesOf(captured, 'warn')).toEqual([away])
    expect(linesOf(captured, 'info')).toEqual(['Redis recovered'])
  })

  test('the connection is replaced after a longer silence', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    const counter = fresh()
    const plainClient = clientOf(server.port)
    const connections = () => connectionsOf(plainClient)
    const before = await connections()
    expect(before).toHaveLength(1)
    server.pause()
    await redis.limiter.consume(counter, 1, 10)
    const frozenAt = performance.now()
    const isConnectionReplaced = async () => {
      await expect(redis.check()).rejects.toMatchObject(unavailable)
      return performance.now() - frozenAt > 2_500 // longer than the allowed silence of this connection and the next one
    }
    await waitUntil(isConnectionReplaced, 'time')
    server.resume()
    await waitUntilRedisAnswers(redis)
    await waitUntil(async () => (await connections()).length === 1, 'the old connections to end')
    expect(await connections()).not.toEqual(before)
    expect(await exhaust(redis.limiter, counter, 10)).toBe(9)
  })

  test('close does not wait for Redis', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    server.pause()
    const elapsedMs = startStopwatch()
    await redis.close()
    expect(elapsedMs()).toBeLessThan(3 * replyTimeoutMs)
  })
})

describeIfRuns('redis: a process that was suspended', () => {
  test('does not treat Redis as unresponsive', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, { logger: captured.logger, replyTimeoutMs: 2_000 })
    const counter = fresh()
    // The process is suspended once before the calls are sent and once before the replies are read.
    for (const turns of [0, 1]) {
      const consumption = redis.limiter.consume(counter, 3, 10)
      const session = redis.sessions.find(fresh('t'))
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      const wakesAt = performance.now() + 2_500
      while (performance.now() < wakesAt);
      expect(await consumption).toMatchObject({ granted: true })
      expect(await session).toBeUndefined()
    }
    expect(captured.lines()).toEqual([])
    expect(await exhaust((await openAnswering(server.url)).limiter, counter, 10)).toBe(4)
  })
})

describeIfRuns('redis: closed', () => {
  test('limits hold per process and all other calls are rejected after close', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const counter = fresh()
    const settledCalls: unknown[] = []
    const created = redis.sessions.create(fresh('t'), { keyHash: 'k' }).then(() => settledCalls.push('session'))
    const consumption = Promise.resolve(redis.limiter.consume(counter, 4, 10)).then(({ granted }) =>
      settledCalls.push(granted),
    )
    await redis.close()
    expect(settledCalls).toEqual(['session', true])
    await Promise.all([created, consumption])
    expect(await exhaust(redis.limiter, counter, 10)).toBe(6)
    await expectClosed(redis)
    await redis.close()
    expect(await exhaust((await openAnswering(server.url)).limiter, counter, 10)).toBe(6)
    expect(captured.lines()).toEqual([])
  })
})

describeIfRuns('redis: on the wire', () => {
  let server: LocalRedis
  let redis: Redis
  beforeEach(async () => {
    server = await start()
    redis = await openAnswering(server.url)
  })

  const scriptsRun = async (): Promise<number> => {
    const stats = await clientOf(server.port).info('commandstats')
    const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)]
    return calls.reduce((sum, [, number]) => sum + Number(number), 0)
  }

  test('each counter has one running call, and calls that arrive meanwhile share the next one', async () => {
    const counters = [fresh(), fresh()]
    const before = await scriptsRun()
    const calls = Array.from({ length: 1_000 }, async (_, index) =>
      redis.limiter.consume(counters[index % 2] ?? '', 1, 10_000),
    )
    await Promise.all(calls)
    expect(await scriptsRun()).toBe(before + 4)
    expect(redis.limiter.peek(counters[0] ?? '', 10_000).remaining).toBe(9_500)
  })

  test('a cost that certainly does not fit is refused without a call', async () => {
    const counter = fresh()
    await redis.limiter.consume(counter, 95, 100)
    const before = await scriptsRun()
    const consumptions = await Promise.all(
      Array.from({ length: 1_000 }, async () => redis.limiter.consume(counter, 6, 100)),
    )
    expect(consumptions.some(({ granted }) => granted)).toBe(false)
    expect(await scriptsRun()).toBe(before)
    expect(await redis.limiter.consume(counter, 5, 100)).toMatchObject({ granted: true })
    expect(await scriptsRun()).toBe(before + 1)
  })

  test('keys have their prefix and expire', async () => {
    const other = await openAnswering(`${server.url}/3?prefix=other:`)
    for (const each of [redis, other]) {
      await each.limiter.consume('events:key_1', 1, 10)
      await each.sessions.create('hash', { keyHash: 'k' })
      await each.idempotency.claim('id', 'f', 'one', 'key_1')
      await each.idempotency.complete('id', 'f', { status: 200, timestamp: 1 }, 'key_1')
    }
    const [first, third] = [clientOf(server.port), clientOf(server.port, { db: 3 })]
    expect((await first.keys('*')).sort()).toEqual([
      'sluice:answer-bytes:key_1',
      'sluice:answer:id',
      'sluice:limit:events:key_1',
      'sluice:session:hash',
    ])
    expect((await third.keys('*')).sort()).toEqual([
      'other:answer-bytes:key_1',
      'other:answer:id',
      'other:limit:events:key_1',
      'other:session:hash',
    ])
    for (const key of await first.keys('*')) expect(await first.pttl(key)).toBeGreaterThan(50_000)
  })

  test('a later count does not move the end of the window', async () => {
    await redis.limiter.consume('a', 1, 10)
    const plainClient = clientOf(server.port)
    await plainClient.pexpire('sluice:limit:a', 20_000)
    await redis.limiter.consume('a', 1, 10)
    await redis.limiter.refund('a', 1, 10)
    expect(await plainClient.pttl('sluice:limit:a')).toBeLessThanOrEqual(20_000)
    expect(await plainClient.get('sluice:limit:a')).toBe('1')
  })
})

describeIfRuns('redis: error replies', () => {
  test('a wrong password is logged as an error without the password', async () => {
    const server = await start({ requirepass: 'hush-hush' })
    const captured = capturedLogger()
    const redis = open(`redis://:hush-wrong@127.0.0.1:${server.port}`, captured)
    await waitUntil(() => captured.lines().length > 0, 'the line')
    expect(captured.lines()[0]).toMatchObject({ level: 'warn', error: expect.stringContaining('WRONGPASS') })
    expect(await exhaust(redis.limiter, fresh(), 5)).toBe(5)
    const refusal: unknown = await redis.sessions.find(fresh('t')).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ ...unavailable, internal: expect.stringContaining('WRONGPASS') })
    expect(captured.text() + inspect(refusal, { depth: 9, showHidden: true })).not.toContain('hush')

    const right = await openAnswering(`redis://:hush-hush@127.0.0.1:${server.port}`)
    expect(await right.sessions.find(fresh('t'))).toBeUndefined()
    const named = await openAnswering(`redis://default:hush-hush@127.0.0.1:${server.port}`)
    expect(await named.sessions.find(fresh('t'))).toBeUndefined()
  })

  test('errors that quote the command are logged without keys and values', async () => {
    const server = await start({ 'rename-command': 'EVAL ""' })
    const captured = capturedLogger()
    const redis = open(server.url, captured)
    await waitUntil(() => captured.lines().length > 0 || redis.check().then(Boolean, () => false), 'the line')
    const refusals: unknown[] = await Promise.all(
      [
        redis.sessions.create('token-hash', { keyHash: 'key-hash' }),
        redis.sessions.find('token-hash'),
        redis.idempotency.complete('token-hash', 'key-hash', { status: 200, data: 'key-hash', timestamp: 1 }, 'k'),
      ].map((refused) => refused.catch((error: unknown) => error)),
    )
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ ...unavailable, internal: 'Redis: ERR unknown command …' })
      expect(inspect(refusal, { depth: 9, showHidden: true })).not.toMatch(/-hash|redis\.call/)
    }
    expect(await exhaust(redis.limiter, 'token-hash', 5)).toBe(5)
    expect(captured.lines()).toEqual([
      expect.objectContaining({ level: 'warn', error: 'ERR unknown command …', redis: `127.0.0.1:${server.port}` }),
    ])
    expect(captured.text()).not.toMatch(/-hash|redis\.call/)
  })

  test('a user with the rights of docs/operations.md can do everything', async () => {
    const server = await start()
    const [rights = ''] = /(?<=ACL SETUSER sluice )[^`]+/.exec(await readFile('docs/operations.md', 'utf8')) ?? []
    await clientOf(server.port).call('ACL', 'SETUSER', 'sluice', ...rights.replace('\\', '').trim().split(/\s+/))
    const captured = capturedLogger()
    const redis = await openAnswering(`redis://sluice:secret@127.0.0.1:${server.port}/3`, captured)
    expect(await exhaust(redis.limiter, 'c', 5)).toBe(5)
    await redis.limiter.refund('c', 1, 5)
    await redis.sessions.create('t', { keyHash: 'k' })
    expect(await redis.sessions.find('t')).toMatchObject({ keyHash: 'k' })
    await redis.sessions.delete('t')
    await redis.signInCodes.create('s', { keyHash: 'k' })
    expect(await redis.signInCodes.find('s')).toEqual({ keyHash: 'k' })
    expect(await redis.signInCodes.take('s')).toEqual({ keyHash: 'k' })
    expect(await redis.idempotency.claim('i', 'f', 'one', 'k')).toEqual({ state: 'new' })
    await redis.idempotency.complete('i', 'f', { status: 200, timestamp: 1 }, 'k')
    await redis.idempotency.release('i', 'one')
    expect(captured.lines()).toEqual([])
  })

  test.each([
    ['Redis 7', (reply: string) => reply],
    // Before Redis 7, an error within a script has the text of the script's error around it.
    [
      'Redis 6.2',
      (reply: string) =>
        reply.replace(/^-OOM /gm, `-ERR Error running script (call to f_0): @user_script:9: @user_script: 9: -OOM `),
    ],
  ])(
    'the check fails while Redis is full and its policy is noeviction, in the form of %s',
    async (_version, change) => {
      const server = await start({ 'maxmemory-policy': 'noeviction' })
      const plainClient = clientOf(server.port)
      const redis = await openAnswering(`redis://127.0.0.1:${await proxyOf(server.port, change)}`)
      await plainClient.config('SET', 'maxmemory', '1')
      const refusal: unknown = await redis.check().catch((error: unknown) => error)
      expect(refusal).toMatchObject(unavailable)
      expect(failureName(refusal)).toBe('OOM')
      await plainClient.config('SET', 'maxmemory', '0')
      await redis.check()
      expect(await plainClient.keys('*')).toEqual([])
    },
  )

  test.each(['evalsha', 'hset', 'del'])('the check fails while the user may not call %s', async (command) => {
    const server = await start()
    const user = await createRedisUser(server.url)
    try {
      const redis = await openAnswering(user.url)
      await user.forbid(command)
      const refusal: unknown = await redis.check().catch((error: unknown) => error)
      expect(refusal).toMatchObject(unavailable)
      expect(failureName(refusal)).toBe('NOPERM')
      await user.allow(command)
      await redis.check()
    } finally {
      await user.drop()
    }
  })

  test.each([
    ['Redis 7', '-READONLY '],
    // Before Redis 7, an error within a script has the text of the script's error around it.
    [
      'Redis 6.2',
      `-ERR Error running script (call to f_${'0'.repeat(40)}): @user_script:1: @user_script: 1: -READONLY `,
    ],
  ])(
    'an error reply of a replica, as %s gives it, makes the connection reconnect until it reaches the primary',
    async (_version, begin) => {
      const [primary, replica] = await Promise.all([start(), start()])
      const plainClient = clientOf(replica.port)
      const port = await proxyOf(replica.port, (reply) => reply.replace(/^-READONLY /gm, begin))
      const redis = await openAnswering(`redis://127.0.0.1:${port}`)
      await plainClient.replicaof('127.0.0.1', primary.port)
      const before = await connectionsOf(plainClient)
      const refusal = (): Promise<unknown> =>
        redis.sessions.create(fresh('t'), { keyHash: 'k' }).catch((error: unknown) => error)
      expect(await refusal()).toMatchObject({ ...unavailable, internal: expect.stringContaining('READONLY') })
      expect(await exhaust(redis.limiter, fresh(), 5)).toBe(5)
      await waitUntil(async () => !(await connectionsOf(plainClient)).some((id) => before.includes(id)), 'a reconnect')
      await plainClient.replicaof('NO', 'ONE')
      await waitUntil(async () => (await refusal()) === undefined, 'sessions')
    },
  )
})

const openssl = 'openssl'
const hasOpenssl = ((): boolean => {
  try {
    execFileSync(openssl, ['version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

describeWith('Redis or no openssl', hasRedis && hasOpenssl)('redis: TLS', () => {
  const key = join(root, 'key.pem')
  const certificate = join(root, 'certificate.pem')

  beforeAll(() => {
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
    const names = ['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
    execFileSync(openssl, [...request, ...names, '-keyout', key, '-out', certificate], { stdio: 'ignore' })
  })

  test('a connection works with a private certificate authority and fails without it', async () => {
    const tlsPort = await findFreePort()
    await start({
      'tls-port': String(tlsPort),
      'tls-cert-file': certificate,
      'tls-key-file': key,
      'tls-auth-clients': 'no',
      requirepass: 'hush',
    })
    for (const host of ['localhost', '127.0.0.1']) {
      const redis = await openAnswering(`rediss://:hush@${host}:${tlsPort}/2?ca=${encodeURIComponent(certificate)}`)
      expect(await redis.limiter.consume(`tls-${host}`, 4, 10)).toMatchObject({ granted: true, remaining: 6 })
    }
    const plainClient = clientOf(tlsPort, { tls: { rejectUnauthorized: false }, password: 'hush', db: 2 })
    expect(await plainClient.keys('*')).toHaveLength(2)

    const captured = capturedLogger()
    const withoutAuthority = open(`rediss://:hush@localhost:${tlsPort}/2`, captured)
    await waitUntil(() => captured.lines().length > 0, 'the line')
    await expectClosed(withoutAuthority)
    expect(captured.lines()[0]).toMatchObject({ error: expect.stringContaining('certificate') })
    expect(captured.text()).not.toContain('hush')
  })
})
