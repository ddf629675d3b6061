import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, afterEach, describe, expect, test } from '@jest/globals'
import { NotReadyError } from '@sluice/runtime/health'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { block, collect } from '../conformance/collect.ts'
import { describeEventLog } from '../conformance/conformance.ts'
import type { EventLog } from '../log.ts'
import { openEventLog } from '../open-event-log.ts'
import type { SqliteEngine } from './engine.ts'
import { openSqliteLog, type SqliteLogOptions } from './sqlite-log.ts'

const mebibyte = 1024 * 1024
const timeoutMs = 10_000
const dirs: string[] = []
const logs: EventLog[] = []

const createDir = async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-log-'))
  dirs.push(dir)
  return dir
}

const open = async (dir: string, options: Partial<SqliteLogOptions> = {}) => {
  const log = await openSqliteLog(dir, { logger: silentLogger, partitions: 4, ...options })
  logs.push(log)
  return log
}

/** True when a file of the log contains `text`. */
const contains = async (dir: string, text: string) => {
  const files = (await readdir(dir)).map((name) => readFile(join(dir, name)))
  return (await Promise.all(files)).some((bytes) => bytes.includes(text))
}

afterEach(async () => {
  await Promise.all(logs.splice(0).map((log) => log.close()))
})

afterAll(async () => {
  await Promise.all(dirs.map((dir) => rm(dir, { recursive: true })))
})

describeEventLog('SQLite', {
  createUrl: async () => `file:${await createDir()}`,
  options: { file: { partitions: 4 } },
})

describe('the folder of a SQLite log', () => {
  test('is locked by one opening at a time, and the error names folder and variable', async () => {
    const dir = await createDir()
    const log = await open(dir)
    const refusal = await openEventLog(`file:${dir}`, { logger: silentLogger }).catch((error: unknown) => String(error))
    expect(refusal).toContain('in use')
    expect(refusal).toContain(dir)
    expect(refusal).toContain('SLUICE_LOG_URL')
    await log.publish([block(0, 'a')], { timeoutMs })
    await log.close()
    await open(dir)
  })

  test('is refused when its file is damaged, with what to do, which an intact file of another format is not told', async () => {
    const [damaged, newer] = [await createDir(), await createDir()]
    await writeFile(join(damaged, 'log.sqlite'), Buffer.alloc(64 * 1024, 'x'))
    await expect(open(damaged)).rejects.toThrow(/not a database\. docs\/backup\.md \(Standalone\) says what to do/)

    await (await open(newer)).close()
    const database = new DatabaseSync(join(newer, 'log.sqlite'))
    database.prepare("UPDATE meta SET value = 999 WHERE name = 'version'").run()
    database.close()
    await expect(open(newer)).rejects.toThrow(/its format is version 999, this program reads \d+$/)
  })

  test('keeps its number of partitions', async () => {
    const dir = await createDir()
    await (await open(dir, { partitions: 3 })).close()
    expect(await (await open(dir, { partitions: 5 })).partitions()).toBe(3)
  })

  test('loses the blocks that are older than the retention when it is opened, and others never', async () => {
    const dir = await createDir()
    const log = await open(dir)
    await log.publish([block(0, 'old'), block(1, 'older')], { timeoutMs })
    await log.close()
    const database = new DatabaseSync(join(dir, 'log.sqlite'))
    const dayMs = 86_400_000
    database.prepare('UPDATE blocks SET appended_at = ?').run(Date.now() - 400 * dayMs)
    database.close()

    const kept = await open(dir)
    expect(await kept.endOffsets()).toEqual([1n, 1n, 0n, 0n])
    await kept.publish([block(0, 'new')], { timeoutMs })
    expect((await kept.committedOffsets('group'))[0]).toEqual({ partition: 0, offset: 0n, endOffset: 2n })
    await kept.close()
    const pruned = await open(dir, { retentionMs: 365 * dayMs })
    expect((await pruned.committedOffsets('group'))[0]).toEqual({ partition: 0, offset: 1n, endOffset: 2n })
    const reader = collect(pruned, 'group')
    await waitUntil(() => reader.committed.length === 1, 'the newer block')
    expect(reader.names).toEqual(['new'])
    expect(await pruned.endOffsets()).toEqual([2n, 0n, 0n, 0n])
  })

  test('stamps blocks by the clock that it is given', async () => {
    const at = Date.UTC(2020, 0, 1)
    const log = await open(await createDir(), { now: () => at })
    await log.publish([block(0, 'a')], { timeoutMs })
    expect(await log.offsetsForTime(at)).toEqual([0n, 0n, 0n, 0n])
    expect(await log.offsetsForTime(at + 1)).toEqual([1n, 0n, 0n, 0n])
  })

  test('is named in the error when it cannot be created', async () => {
    await expect(openEventLog('file:/dev/null/log', { logger: silentLogger })).rejects.toThrow(
      /\/dev\/null\/log \(SLUICE_LOG_URL\)/,
    )
  })

  test('does not grow while its blocks are consumed, and offsets continue when all are deleted', async () => {
    const dir = await createDir()
    const log = await open(dir)
    const reader = collect(log, 'group')
    for (let round = 1; round <= 100; round++) {
      await log.publish([block(0, 'a', {}, mebibyte)], { timeoutMs })
      await waitUntil(() => reader.committed.length === round, 'the block')
    }
    const { size } = await stat(join(dir, 'log.sqlite'))
    expect(size).toBeLessThan(50 * mebibyte)
    await log.close()

    const again = await open(dir)
    const next = collect(again, 'group')
    await again.publish([block(0, 'next')], { timeoutMs })
    await waitUntil(() => next.batches.length > 0, 'the block')
    expect(next.batches[0]?.firstOffset).toBe(100n)
    expect(next.names).toEqual(['next'])
  })

  test('does not contain the bytes of deleted blocks after a while, although others wait', async () => {
    const dir = await createDir()
    const log = await open(dir, { compactAfterMs: 1 })
    const reader = collect(log, 'group')
    await log.publish([block(0, 'erased person'), block(1, 'erased person', {}, mebibyte)], { timeoutMs })
    await waitUntil(() => reader.committed.length === 2, 'the blocks')
    await reader.consumer.stop()
    await log.publish([block(0, 'waiting'), block(1, 'waiting', {}, mebibyte)], { timeoutMs })
    await waitUntil(async () => !(await contains(dir, 'erased person')), 'the bytes are removed')
    expect(await contains(dir, 'waiting')).toBe(true)
  })

  test('does not contain the bytes of deleted blocks when it is closed', async () => {
    const dir = await createDir()
    const log = await open(dir)
    const reader = collect(log, 'group')
    await log.publish([block(0, 'erased person')], { timeoutMs })
    await waitUntil(() => reader.committed.length === 1, 'the block')
    expect(await contains(dir, 'erased person')).toBe(true)
    await log.close()
    expect(await contains(dir, 'erased person')).toBe(false)
  })

  test('contains what a group has not read until that group is forgotten', async () => {
    const dir = await createDir()
    const log = await open(dir)
    await log.committedOffsets('of a lost store')
    const reader = collect(log, 'group')
    await log.publish([block(0, 'kept for the lost store')], { timeoutMs })
    await waitUntil(() => reader.committed.length === 1, 'the block')
    await log.close()
    expect(await contains(dir, 'kept for the lost store')).toBe(true)

    const again = await open(dir)
    await again.keepOnlyGroup('group')
    expect((await again.committedOffsets('group'))[0]).toMatchObject({ offset: 1n })
    await again.close()
    await open(dir, { compactAfterMs: 1 })
    await waitUntil(async () => !(await contains(dir, 'kept for the lost store')), 'the block is deleted')
  })

  test('does not contain the bytes of blocks that its retention deleted, although it is too large to be compacted', async () => {
    const dir = await createDir()
    const log = await open(dir)
    await log.publish([block(0, 'expired', {}, mebibyte), block(1, 'kept', {}, 17 * mebibyte)], { timeoutMs })
    await log.close()
    const database = new DatabaseSync(join(dir, 'log.sqlite'))
    database.prepare('UPDATE blocks SET appended_at = 0 WHERE id = 0').run()
    database.close()
    expect(await contains(dir, 'expired')).toBe(true)

    await (await open(dir, { retentionMs: 86_400_000 })).close()
    expect(await contains(dir, 'expired')).toBe(false)
    expect(await contains(dir, 'kept')).toBe(true)
  })

  test('refuses blocks with 503 when it is full, accepts commits, and accepts blocks again when these freed space', async () => {
    const dir = await createDir()
    const log = await open(dir, { fileBytesMax: 8 * mebibyte })
    const release = Promise.withResolvers<undefined>()
    const reader = collect(log, 'group', { batchRowsMax: 1 }, () => release.promise)
    const publish = (name: string) => log.publish([block(0, name, {}, mebibyte)], { timeoutMs })
    let taken = 0
    const refusal = await (async () => {
      for (; taken < 20; taken++) await publish(String(taken))
    })().catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'unavailable', retryable: true })
    expect(taken).toBeGreaterThan(3)
    await log.check()

    // Several at a time, so that refused blocks and commits share their transactions.
    const end = performance.now() + timeoutMs
    const publishAgain = async (name: string): Promise<void> => {
      try {
        await publish(name)
      } catch (error) {
        if (performance.now() > end) throw error
        await publishAgain(name)
      }
    }
    const names = ['x', 'y', 'z']
    const published = Promise.all(names.map(publishAgain))
    release.resolve(undefined)
    await waitUntil(() => reader.committed.length >= taken, 'the blocks')
    await published
    await waitUntil(() => reader.committed.length >= taken + names.length, 'the next blocks')
    expect(reader.committed.slice(taken).sort()).toEqual(names)
    await log.close()

    const again = await open(dir)
    const next = collect(again, 'group')
    await again.publish([block(0, 'last')], { timeoutMs })
    await waitUntil(() => next.committed.length > 0, 'the last block')
    expect(next.names).toEqual(['last'])
  })
})

describe('a SQLite log on a full disk', () => {
  test('refuses blocks with 503 while there is space for commits', async () => {
    const dir = await createDir()
    const log = await open(dir)
    await log.publish([block(0, 'a')], { timeoutMs })
    await log.close()

    const full = await open(dir, { freeBytesMin: 2 ** 60 })
    await expect(full.publish([block(0, 'b')], { timeoutMs })).rejects.toMatchObject({
      code: 'unavailable',
      internal: expect.stringMatching(/\d+ bytes left/) as unknown,
    })
    await expect(full.check()).rejects.toThrow(
      new NotReadyError('the disk of the log has less than 1099511627776 MiB free'),
    )
    const reader = collect(full, 'group')
    await waitUntil(() => reader.committed.includes('a'), 'the block')
  })
})

describe('the thread of a SQLite log', () => {
  test('refuses a publish with 503 that is not written in time, and never writes one that had not begun', async () => {
    const log = await open(await createDir())
    // Written for seconds, and longer on a busy disk.
    const large = log.publish([block(0, 'large', {}, 100 * mebibyte)], { timeoutMs: 120_000 })
    await expect(log.publish([block(0, 'late')], { timeoutMs: 1 })).rejects.toMatchObject({ code: 'unavailable' })
    await large
    await log.publish([block(0, 'next')], { timeoutMs })
    const reader = collect(log, 'group')
    await waitUntil(() => reader.names.includes('next'), 'the next block')
    expect(reader.names).toEqual(['large', 'next'])
  })

  test('rejects pending calls and ends members when it ends, and is restarted by the next call', async () => {
    const engines: SqliteEngine[] = []
    const log = await open(await createDir(), { onEngine: (engine) => engines.push(engine) })
    const reader = collect(log, 'group')
    await log.publish([block(0, 'a')], { timeoutMs })
    await waitUntil(() => reader.committed.length === 1, 'the block')
    // Too large to be compressed, which would take until after the thread's end.
    const waiting = log.publish([block(0, 'b', {}, 65 * mebibyte)], { timeoutMs })
    await Promise.all([
      engines[0]?.terminate(),
      expect(waiting).rejects.toMatchObject({ code: 'unavailable' }),
      expect(reader.running).rejects.toThrow('thread'),
    ])

    await log.publish([block(0, 'c')], { timeoutMs })
    const next = collect(log, 'group')
    await waitUntil(() => next.committed.includes('c'), 'the block after')
    expect(next.names).not.toContain('a')
    expect(engines).toHaveLength(2)
  })
})
