import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import { inspect } from 'node:util'
import { Redis as Client } from 'ioredis'
import { findFreePort, waitUntil } from '@sluice/engines/processes'
import { redisMissing, startRedis, type LocalRedis } from '@sluice/engines/redis'
import { capturedLogger, type CapturedLogger } from '@sluice/runtime/testing'
import { fresh, opener, untilAnswering } from './open-redis.test-support.ts'
import type { Limiter, Redis } from './ports.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-redis-faults-'))
const describeIfRuns = redisMissing() === undefined ? describe : describe.skip
const { open, openAnswering } = opener()

const servers: LocalRedis[] = []
const clients: Client[] = []

/** A server of one test. */
const start = async (settings: Record<string, string> = {}, port?: number): Promise<LocalRedis> => {
  const server = await startRedis({ dir: join(root, fresh('r')), settings, ...(port !== undefined && { port }) })
  servers.push(server)
  return server
}

/** ioredis itself, for what Sluice does not do. */
const clientOf = (port: number, options: { db?: number; password?: string; tls?: ConnectionOptions } = {}): Client => {
  const client = new Client({ port, ...options })
  clients.push(client)
  return client
}

/** Ids of Sluice's connections. */
const connectionsOf = async (own: Client): Promise<string[]> =>
  String(await own.client('LIST')).match(/id=\d+(?=.* name=sluice )/g) ?? []

afterEach(async () => {
  for (const client of clients.splice(0)) client.disconnect()
  await Promise.all(servers.splice(0).map((server) => server.stop()))
})

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

/** Spends 1 until it is refused; how much was granted. */
const exhaust = async (limiter: Limiter, counter: string, limit: number): Promise<number> => {
  let granted = 0
  while ((await limiter.spend(counter, 1, limit)).granted) {
    granted++
    if (granted > limit) throw new Error('more than the limit was granted')
  }
  return granted
}

const unavailable = { status: 503, retryable: true, message: 'Service temporarily unavailable' }

/** What needs Redis says so at once. */
const expectClosed = async (redis: Redis): Promise<void> => {
  const started = performance.now()
  await expect(redis.sessions.create('t', { keyHash: 'k' })).rejects.toMatchObject(unavailable)
  await expect(redis.sessions.find('t')).rejects.toMatchObject(unavailable)
  await expect(redis.sessions.delete('t')).rejects.toMatchObject(unavailable)
  await expect(redis.answers.begin('i', 'f')).rejects.toMatchObject(unavailable)
  await expect(redis.answers.finish('i', 'f', { status: 200, timestamp: 1 })).rejects.toMatchObject(unavailable)
  await expect(redis.answers.abandon('i')).rejects.toMatchObject(unavailable)
  await expect(redis.check()).rejects.toMatchObject(unavailable)
  expect(performance.now() - started).toBeLessThan(400) // 100 ms each, had they waited
}

const linesOf = ({ lines }: CapturedLogger, level: string): unknown[] =>
  lines()
    .filter((line) => line.level === level)
    .map(({ msg }) => msg)

const away = 'Redis is away: limits hold per process, sessions and idempotent requests are refused'

describeIfRuns('redis: away at the start', () => {
  test('limits hold in the process, the rest is refused; once it is there, all goes there', async () => {
    const port = await findFreePort()
    const captured = capturedLogger()
    const redis = open(`redis://127.0.0.1:${port}`, captured)
    const [counter, later] = [fresh(), fresh()]
    const spent = await Promise.all(Array.from({ length: 200 }, async () => redis.limiter.spend(counter, 1, 150)))
    expect(spent.filter(({ granted }) => granted)).toHaveLength(150)
    expect(redis.limiter.known(counter, 150).remaining).toBe(0)
    await redis.limiter.giveBack(counter, 10, 150)
    expect(await exhaust(redis.limiter, counter, 150)).toBe(10)
    await expectClosed(redis)
    await waitUntil(() => linesOf(captured, 'warn').length > 0, 'the line', 10_000)

    const server = await start({}, port)
    await untilAnswering(redis)
    // What this process granted is not granted again in the window.
    expect(await exhaust(redis.limiter, counter, 150)).toBe(0)
    await redis.limiter.spend(later, 40, 100)
    expect(await exhaust((await openAnswering(server.url)).limiter, later, 100)).toBe(60)
    expect(linesOf(captured, 'warn')).toEqual([away])
    expect(linesOf(captured, 'info')).toEqual(['Redis answers again'])
    expect(captured.lines()[0]).toMatchObject({ redis: `127.0.0.1:${port}`, error: expect.stringContaining('ECONN') })
  })
})

describeIfRuns('redis: killed', () => {
  test('limits go on from what was heard last, also when it comes back empty', async () => {
    const server = await start()
    const captured = capturedLogger()
    const [redis, other] = await Promise.all([openAnswering(server.url, captured), openAnswering(server.url)])
    const counter = fresh()
    await other.limiter.spend(counter, 600, 1_000)
    expect(await redis.limiter.spend(counter, 300, 1_000)).toMatchObject({ granted: true, remaining: 100 })
    const { resetAt } = redis.limiter.known(counter, 1_000)

    await server.kill()
    await waitUntil(() => linesOf(captured, 'warn').length > 0, 'the line', 1_000)
    await expectClosed(redis)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(100)
    expect(redis.limiter.known(counter, 1_000)).toEqual({ remaining: 0, resetAt })

    await server.restart()
    await untilAnswering(redis)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(0)
    // Below what is known here, the empty one counts; it begins a window that ends later.
    const free = fresh()
    await redis.limiter.spend(free, 1, 10)
    await redis.limiter.giveBack(counter, 500, 1_000)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(500)
    expect(redis.limiter.known(counter, 1_000)).toEqual({ remaining: 0, resetAt })
  })

  test('a window that began while it was away ends, and Redis counts on', async () => {
    const server = await start()
    const redis = await openAnswering(server.url, { times: { limitWindowSeconds: 2 } })
    const counter = fresh()
    await server.kill()
    expect(await exhaust(redis.limiter, counter, 50)).toBe(50)
    await server.restart()
    await untilAnswering(redis)
    await waitUntil(async () => (await redis.limiter.spend(counter, 20, 50)).granted, 'a new window', 5_000)
    expect(await exhaust((await openAnswering(server.url)).limiter, counter, 50)).toBe(30)
  })

  test('calls under way are settled, none waits for it', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    const counter = fresh()
    let slowest = 0
    let isOver = false
    const callers = Array.from({ length: 16 }, async (_, index) => {
      let granted = 0
      while (!isOver) {
        const started = performance.now()
        if ((await redis.limiter.spend(`${counter}${index % 2}`, 1, 10_000_000)).granted) granted++
        slowest = Math.max(slowest, performance.now() - started)
        await new Promise(setImmediate)
      }
      return granted
    })
    await waitUntil(() => redis.limiter.known(`${counter}0`, 10_000_000).remaining < 10_000_000 - 500, 'calls', 5_000)
    await server.kill()
    await waitUntil(
      () =>
        redis.check().then(
          () => false,
          () => true,
        ),
      'that it is noticed',
      1_000,
    )
    await server.restart()
    await untilAnswering(redis)
    isOver = true
    const granted = (await Promise.all(callers)).reduce((sum, each) => sum + each, 0)
    const known = [0, 1].map((index) => 10_000_000 - redis.limiter.known(`${counter}${index}`, 10_000_000).remaining)
    expect((known[0] ?? 0) + (known[1] ?? 0)).toBe(granted)
    expect(slowest).toBeLessThan(500)
  })
})

describeIfRuns('redis: frozen', () => {
  test('one call waits 100 ms, the next ones don’t; sessions are refused at once', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const counter = fresh()
    await redis.limiter.spend(counter, 40, 1_000)
    server.pause()
    const started = performance.now()
    // Of another limit each, so that none goes with another.
    const waiting = [0, 1, 2, 3, 4, 5, 6, 7].map(async (more) => redis.limiter.spend(counter, 20, 1_000 + more))
    expect((await Promise.all(waiting)).map(({ remaining }) => remaining)).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((more) => 940 + more - 20 * more),
    )
    const waitedMs = performance.now() - started
    expect(waitedMs).toBeGreaterThanOrEqual(99)
    expect(waitedMs).toBeLessThan(500)

    const again = performance.now()
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(800)
    expect(performance.now() - again).toBeLessThan(500)
    await expectClosed(redis)

    server.resume()
    await untilAnswering(redis, 1_000)
    expect(await exhaust(redis.limiter, counter, 1_000)).toBe(0)
    expect(linesOf(captured, 'warn')).toEqual([away])
    expect(linesOf(captured, 'info')).toEqual(['Redis answers again'])
  })

  test('for longer, the connection is given up: whatever it was, another one is made', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    const counter = fresh()
    const own = clientOf(server.port)
    const connections = () => connectionsOf(own)
    const before = await connections()
    expect(before).toHaveLength(1)
    server.pause()
    await redis.limiter.spend(counter, 1, 10)
    const frozenAt = performance.now()
    const isGivenUp = async () => {
      await expect(redis.check()).rejects.toMatchObject(unavailable)
      return performance.now() - frozenAt > 2_500 // longer than the silence and the next connection’s
    }
    await waitUntil(isGivenUp, 'time', 5_000)
    server.resume()
    await untilAnswering(redis)
    await waitUntil(async () => (await connections()).length === 1, 'the old connections to end', 5_000)
    expect(await connections()).not.toEqual(before)
    expect(await exhaust(redis.limiter, counter, 10)).toBe(9)
  })

  test('closing does not wait for it', async () => {
    const server = await start()
    const redis = await openAnswering(server.url)
    server.pause()
    const started = performance.now()
    await redis.close()
    expect(performance.now() - started).toBeLessThan(500)
  })
})

describeIfRuns('redis: a process that sleeps', () => {
  test('for longer than an answer may take does not take Redis for away', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const counter = fresh()
    // Before the calls are on their way, and before the answers are read.
    for (const turns of [0, 1]) {
      const spent = redis.limiter.spend(counter, 3, 10)
      const session = redis.sessions.find(fresh('t'))
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      const wakesAt = performance.now() + 250
      while (performance.now() < wakesAt);
      expect(await spent).toMatchObject({ granted: true })
      expect(await session).toBeUndefined()
    }
    expect(captured.lines()).toEqual([])
    expect(await exhaust((await openAnswering(server.url)).limiter, counter, 10)).toBe(4)
  })
})

describeIfRuns('redis: closed', () => {
  test('by us: limits hold on, the rest is refused', async () => {
    const server = await start()
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const counter = fresh()
    const settled: unknown[] = []
    const created = redis.sessions.create(fresh('t'), { keyHash: 'k' }).then(() => settled.push('session'))
    const spent = Promise.resolve(redis.limiter.spend(counter, 4, 10)).then(({ granted }) => settled.push(granted))
    await redis.close()
    expect(settled).toEqual(['session', true])
    await Promise.all([created, spent])
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

  test('one call is under way per counter: what comes meanwhile goes with the next', async () => {
    const counters = [fresh(), fresh()]
    const calls = Array.from({ length: 1_000 }, async (_, index) =>
      redis.limiter.spend(counters[index % 2] ?? '', 1, 10_000),
    )
    await Promise.all(calls)
    expect(await scriptsRun()).toBe(4)
    expect(redis.limiter.known(counters[0] ?? '', 10_000).remaining).toBe(9_500)
  })

  test('what is known not to fit is not asked', async () => {
    const counter = fresh()
    await redis.limiter.spend(counter, 95, 100)
    const before = await scriptsRun()
    const spent = await Promise.all(Array.from({ length: 1_000 }, async () => redis.limiter.spend(counter, 6, 100)))
    expect(spent.some(({ granted }) => granted)).toBe(false)
    expect(await scriptsRun()).toBe(before)
    expect(await redis.limiter.spend(counter, 5, 100)).toMatchObject({ granted: true })
    expect(await scriptsRun()).toBe(before + 1)
  })

  test('keys have their prefix and an end', async () => {
    const other = await openAnswering(`${server.url}/3?prefix=other:`)
    for (const each of [redis, other]) {
      await each.limiter.spend('events:key_1', 1, 10)
      await each.sessions.create('hash', { keyHash: 'k' })
      await each.answers.begin('id', 'f')
    }
    const [first, third] = [clientOf(server.port), clientOf(server.port, { db: 3 })]
    expect((await first.keys('*')).sort()).toEqual([
      'sluice:answer:id',
      'sluice:limit:events:key_1',
      'sluice:session:hash',
    ])
    expect((await third.keys('*')).sort()).toEqual([
      'other:answer:id',
      'other:limit:events:key_1',
      'other:session:hash',
    ])
    for (const key of await first.keys('*')) expect(await first.pttl(key)).toBeGreaterThan(50_000)
  })

  test('a later count does not put off the end of the window', async () => {
    await redis.limiter.spend('a', 1, 10)
    const own = clientOf(server.port)
    await own.pexpire('sluice:limit:a', 20_000)
    await redis.limiter.spend('a', 1, 10)
    await redis.limiter.giveBack('a', 1, 10)
    expect(await own.pttl('sluice:limit:a')).toBeLessThanOrEqual(20_000)
    expect(await own.get('sluice:limit:a')).toBe('1')
  })
})

describeIfRuns('redis: refusals', () => {
  test('a wrong password is told, and not shown', async () => {
    const server = await start({ requirepass: 'hush-hush' })
    const captured = capturedLogger()
    const redis = open(`redis://:hush-wrong@127.0.0.1:${server.port}`, captured)
    await waitUntil(() => captured.lines().length > 0, 'the line', 10_000)
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

  test('errors that quote what was sent don’t show it', async () => {
    const server = await start({ 'rename-command': 'EVAL ""' })
    const captured = capturedLogger()
    const redis = await openAnswering(server.url, captured)
    const refusals: unknown[] = await Promise.all(
      [
        redis.sessions.create('token-hash', { keyHash: 'key-hash' }),
        redis.sessions.find('token-hash'),
        redis.answers.finish('token-hash', 'key-hash', { status: 200, data: 'key-hash', timestamp: 1 }),
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

  test('of a replica: the connection is made anew until it leads to the primary', async () => {
    const [primary, replica] = await Promise.all([start(), start()])
    const own = clientOf(replica.port)
    await own.replicaof('127.0.0.1', primary.port)
    const redis = await openAnswering(replica.url)
    const before = await connectionsOf(own)
    const refusal = (): Promise<unknown> =>
      redis.sessions.create(fresh('t'), { keyHash: 'k' }).catch((error: unknown) => error)
    expect(await refusal()).toMatchObject({ ...unavailable, internal: expect.stringContaining('READONLY') })
    expect(await exhaust(redis.limiter, fresh(), 5)).toBe(5)
    await untilAnswering(redis)
    expect(await connectionsOf(own)).not.toEqual(before)
    await own.replicaof('NO', 'ONE')
    await waitUntil(async () => (await refusal()) === undefined, 'sessions', 10_000)
  })
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

;(hasOpenssl ? describeIfRuns : describe.skip)('redis: TLS', () => {
  const key = join(root, 'key.pem')
  const certificate = join(root, 'certificate.pem')

  beforeAll(() => {
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
    const names = ['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
    execFileSync(openssl, [...request, ...names, '-keyout', key, '-out', certificate], { stdio: 'ignore' })
  })

  test('with a certificate of one’s own; without knowing it, Redis is away', async () => {
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
      expect(await redis.limiter.spend(`tls-${host}`, 4, 10)).toMatchObject({ granted: true, remaining: 6 })
    }
    const own = clientOf(tlsPort, { tls: { rejectUnauthorized: false }, password: 'hush', db: 2 })
    expect(await own.keys('*')).toHaveLength(2)

    const captured = capturedLogger()
    const distrusting = open(`rediss://:hush@localhost:${tlsPort}/2`, captured)
    await waitUntil(() => captured.lines().length > 0, 'the line', 10_000)
    await expectClosed(distrusting)
    expect(captured.lines()[0]).toMatchObject({ error: expect.stringContaining('certificate') })
    expect(captured.text()).not.toContain('hush')
  })
})
