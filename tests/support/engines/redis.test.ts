import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { isAlive } from '@sluice/engines/processes'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWith } from '../describe-with.ts'
import { type LocalRedis, redisMissing, startRedis } from './redis.ts'
import { redisAnswers } from './redis-probe.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-redis-'))
const describeIfRuns = describeWith('Redis', redisMissing() === undefined)

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeIfRuns('a local Redis', () => {
  const dir = join(root, 'redis')
  let redis: LocalRedis
  const answers = (): Promise<boolean> => redisAnswers('127.0.0.1', redis.port)

  beforeAll(async () => {
    redis = await startRedis({ dir })
  })

  afterAll(async () => {
    await redis.stop()
    expect(isAlive(redis.pid)).toBe(false)
  })

  test('refuses a second one in the same folder', async () => {
    await expect(startRedis({ dir })).rejects.toThrow('is in use by this process')
  })

  test('answers nothing while it is paused, and does when it is resumed', async () => {
    expect(await answers()).toBe(true)
    redis.pause()
    expect(await answers()).toBe(false)
    redis.resume()
    await waitUntil(answers, 'Redis answers')
  })

  test('answers on the same port after it was killed and started again', async () => {
    const { pid, url } = redis
    await redis.kill()
    expect(isAlive(pid)).toBe(false)
    expect(await answers()).toBe(false)
    await redis.restart()
    expect(redis.url).toBe(url)
    expect(redis.pid).not.toBe(pid)
    expect(await answers()).toBe(true)
  })

  test('is not mistaken for a server that answers something else', async () => {
    const other = createServer((socket) => socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    expect(await redisAnswers('127.0.0.1', (other.address() as AddressInfo).port)).toBe(false)
    await new Promise((resolve) => other.close(resolve))
  })

  test('rejects a setting that it does not know with its own message', async () => {
    const starting = startRedis({ dir: join(root, 'wrong'), settings: { 'no-such-setting': 'x' } })
    await expect(starting).rejects.toThrow(/Redis did not start:[^]*no-such-setting/)
  })
})
