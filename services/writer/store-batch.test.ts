import { afterEach, describe, expect, jest, test } from '@jest/globals'
import type { Block } from '@sluice/event-log/block'
import type { BlockAtOffset } from '@sluice/event-log/block-lines'
import type { LogBatch } from '@sluice/event-log/log'
import { clickHouseCode, ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import type { EventBatch, EventInserter, InsertOptions } from '@sluice/event-store/insert/event-inserter'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { backfillPolicy, type LanePolicy, livePolicy } from './lane-policy.ts'
import { storeBatch, type Stored, type StoreDeps } from './store-batch.ts'

const busy = new ClickHouseError(clickHouseCode.queryWithSameIdIsAlreadyRunning, 'a query of this id is running')
const cancelled = new ClickHouseError(clickHouseCode.queryWasCancelled, 'query was cancelled')
const noAnswer = new ClickHouseError(undefined, 'socket hang up')
const tooManyParts = new ClickHouseError(252, 'too many parts')
const noTable = new ClickHouseError(60, 'there is no table events')
const noMemory = new ClickHouseError(241, 'memory limit exceeded')
const badData = new ClickHouseError(27, 'cannot parse input')

function block(text: string, undated = false): Block {
  const payload = Buffer.from(`${text}\n`)
  return {
    partition: 3,
    headers: { v: 1, rows: 1, bytes: payload.length, ...(undated ? { undated } : {}) },
    payload,
  }
}

function batchOf(...blocks: Block[]): LogBatch {
  return {
    partition: 3,
    firstOffset: 10n,
    nextOffset: 10n + BigInt(blocks.length),
    blocks,
    offsets: blocks.map((_, index) => 10n + BigInt(index)),
    rows: blocks.length,
    bytes: blocks.reduce((sum, { payload }) => sum + payload.length, 0),
    oldestAppendedAt: Date.now(),
  }
}

/** Result of one call of the inserter: the number of stored rows, or a failure. */
type Inserted = Awaited<ReturnType<EventInserter['insert']>>
type Step = number | Error | (() => Promise<Inserted>)

function scriptedInserter(...steps: Step[]) {
  const calls: { payloads: string[]; hasUndated: boolean; options: InsertOptions }[] = []
  const insert = ({ payloads, hasUndated }: EventBatch, options: InsertOptions): Promise<Inserted> => {
    const step = steps[calls.length] ?? new Error('one insert more than the script has')
    calls.push({ payloads: payloads.map((payload) => payload.toString()), hasUndated, options })
    if (typeof step === 'function') return step()
    return typeof step === 'number' ? Promise.resolve({ inserted: step, readRows: 0 }) : Promise.reject(step)
  }
  return { calls, insert }
}

const live = livePolicy()
const { lockWait: backfillLockWait } = backfillPolicy(() => Promise.resolve(false), exactClock)

type BadRows = Awaited<ReturnType<EventInserter['findBadRows']>>

interface StoreOptions {
  policy?: StoreDeps['policy']
  isFirstOfClaim?: boolean
  lost?: AbortController
  /** Aborts `lost` at the first failure that is followed by another attempt. */
  loseAtRetry?: string
  /** Result of the search for bad rows. */
  findBadRows?: (lines: readonly string[]) => BadRows
}

/** Stores a batch by a script of results; `replaced` has the value of `shouldReplaceRunning` of each insert. */
async function store(
  batch: LogBatch,
  steps: Step[],
  {
    isFirstOfClaim = false,
    lost = new AbortController(),
    loseAtRetry,
    findBadRows = () => [],
    policy = live,
  }: StoreOptions = {},
) {
  const { calls, insert } = scriptedInserter(...steps)
  const { logger, lines } = capturedLogger()
  let retries = 0
  const stored = storeBatch(
    batch,
    { isFirstOfClaim, signal: lost.signal },
    {
      policy,
      inserter: {
        insert,
        findBadRows: (lines) => Promise.resolve(findBadRows(lines.map((line) => line.toString()))),
      },
      withSlot: (work) => work(),
      logId: 'log-1',
      logger,
      onRetry: () => {
        retries++
        if (loseAtRetry !== undefined) lost.abort(new Error(loseAtRetry))
      },
    },
  )
  const result = await stored.catch((error: unknown) => error)
  const { inserted, dead } = result instanceof Error ? { inserted: result, dead: [] } : (result as Stored)
  return {
    inserted,
    dead,
    calls,
    replaced: calls.map(({ options }) => options.shouldReplaceRunning),
    retries,
    lines: lines(),
  }
}

const singleBlock = batchOf(block('a'))

test('a batch is one insert, named after log and partition, which returns the number of new rows', async () => {
  const { inserted, calls, retries } = await store(batchOf(block('a'), block('b')), [2])
  expect(inserted).toBe(2)
  expect(calls).toStrictEqual([
    {
      payloads: ['a\n', 'b\n'],
      hasUndated: false,
      options: { queryId: 'writer-log-1-3', shouldReplaceRunning: false, partition: 3, timeoutMs: 60_000 },
    },
  ])
  expect(retries).toBe(0)
})

test('dated and undated blocks are stored by one insert, which knows that some are undated', async () => {
  const { inserted, calls } = await store(batchOf(block('a', true), block('b'), block('c', true)), [3])
  expect(inserted).toBe(3)
  expect(calls.map(({ payloads, hasUndated }) => [hasUndated, payloads])).toStrictEqual([[true, ['a\n', 'b\n', 'c\n']]])
})

describe('an insert', () => {
  test('replaces a running one when it is the first of a claim', async () => {
    expect((await store(singleBlock, [1], { isFirstOfClaim: true })).replaced).toStrictEqual([true])
    expect((await store(singleBlock, [1])).replaced).toStrictEqual([false])
  })

  test('replaces a running one after an attempt without a response, which may still run', async () => {
    expect((await store(singleBlock, [noAnswer, 1])).replaced).toStrictEqual([false, true])
    expect((await store(singleBlock, [noAnswer, noAnswer, 1])).replaced).toStrictEqual([false, true, true])
    expect((await store(singleBlock, [new Error('broken'), 1])).replaced).toStrictEqual([false, true])
  })

  test('does not replace the running insert of another writer (216), which must finish first', async () => {
    expect((await store(singleBlock, [busy, busy, 1])).replaced).toStrictEqual([false, false, false])
    expect((await store(singleBlock, [busy, 1], { isFirstOfClaim: true })).replaced).toStrictEqual([true, false])
  })

  test('does not replace a running insert after another insert cancelled the previous attempt (394)', async () => {
    expect((await store(singleBlock, [cancelled, 1])).replaced).toStrictEqual([false, false])
    expect((await store(singleBlock, [noAnswer, cancelled, 1])).replaced).toStrictEqual([false, true, false])
  })

  test('waits a short fixed time while another insert excludes it, which counts as no failure', async () => {
    const excluded = Array.from({ length: 12 }, (_, n) => (n % 4 === 3 ? cancelled : busy))
    const elapsedMs = startStopwatch()
    const { inserted, retries, lines } = await store(singleBlock, [...excluded, 1])
    expect([inserted, retries, lines.length]).toStrictEqual([1, 0, 0])
    // Delays that double would add up to minutes.
    expect(elapsedMs()).toBeLessThan(10_000)
  })

  test('does not replace a running insert after ClickHouse refused the previous attempt', async () => {
    expect((await store(singleBlock, [tooManyParts, 1])).replaced).toStrictEqual([false, false])
  })

  test('replaces a running one when the first insert of the claim was refused for another reason', async () => {
    expect((await store(singleBlock, [tooManyParts, 1], { isFirstOfClaim: true })).replaced).toStrictEqual([true, true])
  })
})

test('a failed insert is retried until it succeeds, each failure is counted and logged, and rows count once', async () => {
  const { inserted, calls, retries, lines } = await store(batchOf(block('a'), block('b', true)), [
    tooManyParts,
    noAnswer,
    noTable,
    noAnswer,
    7,
  ])
  expect(inserted).toBe(7)
  expect(new Set(calls.map(({ payloads }) => payloads.join('')))).toStrictEqual(new Set(['a\nb\n']))
  expect(retries).toBe(4)
  expect(lines).toHaveLength(4)
  const msg = 'batch insert failed, retrying'
  expect(lines[0]).toMatchObject({ level: 'warn', partition: 3, attempt: 1, msg })
  // Only an administrator can repair a missing table.
  expect(lines[2]).toMatchObject({ level: 'error', partition: 3, attempt: 3, msg })
})

/** A block of these lines. */
function blockOf(...texts: string[]): Block {
  const payload = Buffer.from(texts.map((text) => `${text}\n`).join(''))
  return { partition: 3, headers: { v: 1, rows: texts.length, bytes: payload.length }, payload }
}

const letters = (dead: readonly Block[]) =>
  dead.map(({ headers: { letter, rows }, payload }) => ({
    rows,
    payload: payload.toString(),
    letter: letter && { reason: letter.reason, code: letter.code, text: letter.text, offset: letter.offset },
  }))

describe('rows that ClickHouse can’t read', () => {
  const refused = { reason: 'refused' as const, code: 27, text: 'no number' }
  /** Returns the lines that start with `bad`. */
  const findBadRows = (lines: readonly string[]): BadRows =>
    lines.flatMap((line, index) => (line.startsWith('bad') ? [{ index, ...refused }] : []))

  test('become dead letters with their bytes, reason and position, and all others are stored', async () => {
    const before = Date.now()
    const batch = batchOf(blockOf('a', 'bad 1', 'b'), blockOf('c'), blockOf('bad 2', 'bad 3'))
    const { inserted, dead, calls, retries } = await store(batch, [badData, 3], { findBadRows })
    expect(inserted).toBe(3)
    expect(calls[1]?.payloads).toStrictEqual(['a\nb\n', 'c\n'])
    const letter = (offset: string) => ({ reason: 'refused', code: 27, text: 'no number', offset })
    expect(letters(dead)).toStrictEqual([
      { rows: 1, payload: 'bad 1\n', letter: letter('10') },
      { rows: 2, payload: 'bad 2\nbad 3\n', letter: letter('12') },
    ])
    expect(dead[0]?.headers).toMatchObject({ v: 1, bytes: 6, letter: { partition: 3 } })
    expect(dead[0]?.headers.letter?.at).toBeGreaterThanOrEqual(before)
    expect(retries).toBe(0)
  })

  test('cause no second insert when there is no other row', async () => {
    const { inserted, dead, calls } = await store(batchOf(blockOf('bad')), [badData], { findBadRows })
    expect([inserted, dead.length, calls.length]).toStrictEqual([0, 1, 1])
  })

  test('keep their kind, dated or undated', async () => {
    const undated = { ...blockOf('bad', 'c') }
    undated.headers = { ...undated.headers, undated: true }
    const { dead, calls } = await store(batchOf(blockOf('a'), undated), [badData, 2], { findBadRows })
    expect(calls.map(({ hasUndated, payloads }) => [hasUndated, payloads])).toStrictEqual([
      [true, ['a\n', 'bad\nc\n']],
      [true, ['a\n', 'c\n']],
    ])
    expect(dead.map(({ headers }) => headers.undated)).toStrictEqual([true])
  })

  test('are not assumed after other errors, after which the insert is retried', async () => {
    const batch = batchOf(blockOf('a', 'b'))
    const { inserted, dead, calls, retries } = await store(batch, [badData, badData, badData, 2])
    expect([inserted, dead.length, calls.length, retries]).toStrictEqual([2, 0, 4, 2])
    for (const error of [noTable, noAnswer, tooManyParts]) {
      expect(await store(batch, [error, 2], { findBadRows: () => [{ index: 0, ...refused }] })).toMatchObject({
        inserted: 2,
        dead: [],
      })
    }
  })

  test('leave the first insert of a claim that succeeds to replace a running one', async () => {
    const batch = batchOf(blockOf('a', 'bad'), { ...block('u', true) })
    const { replaced } = await store(batch, [badData, 1], { findBadRows, isFirstOfClaim: true })
    expect(replaced).toStrictEqual([true, true])
  })
})

describe('records from other programs', () => {
  const foreign: [string, Partial<Block['headers']>, string, string][] = [
    ['without the headers of a block', { v: 0 as never, rows: 0 }, 'anything', 'unreadable'],
    ['with a version far above the present one', { v: 11 as never }, 'a\n', 'unreadable'],
    ['with a foreign number as version', { v: 1767225600000 as never }, 'a\n', 'unreadable'],
    ['with fewer rows than their headers say', { rows: 3 }, 'a\nb\n', 'row_count'],
    ['with more rows than their headers say', { rows: 1 }, 'a\nb\n', 'row_count'],
    ['without the last line end', { rows: 2 }, 'a\nb', 'row_count'],
    ['without rows', { rows: 0 }, '', 'row_count'],
  ]
  test.each(foreign)(
    '%s become dead letters as a whole, and the blocks beside them are stored',
    async (_, headers, text, reason) => {
      const payload = Buffer.from(text)
      const record = { partition: 3, headers: { v: 1 as const, rows: 1, bytes: payload.length, ...headers }, payload }
      const { inserted, dead, calls } = await store(batchOf(block('a'), record, block('b')), [2])
      expect(inserted).toBe(2)
      expect(calls.map(({ payloads }) => payloads)).toStrictEqual([['a\n', 'b\n']])
      expect(dead).toMatchObject([
        { payload, headers: { rows: record.headers.rows, letter: { reason, offset: '11' } } },
      ])
    },
  )

  test('are not confused with blocks of the next version, which wait for a newer writer with a log line', async () => {
    const newer = { ...block('b'), headers: { ...block('b').headers, v: 2 as never } }
    const { inserted, dead, calls, lines } = await store(batchOf(block('a'), newer), [1], { loseAtRetry: 'stopped' })
    expect(inserted).toMatchObject({ message: 'stopped' })
    expect([dead, calls]).toStrictEqual([[], []])
    expect(JSON.stringify(lines[0])).toContain('upgrade the writer')
    expect(lines[0]).toMatchObject({ level: 'error' })
  })
})

test('an insert that is too large is halved, down to one block, which is retried, and each time counts', async () => {
  const batch = batchOf(block('a'), block('b'), block('c'))
  const { inserted, calls, retries } = await store(batch, [noMemory, noMemory, noMemory, 1, 1, 1])
  expect(inserted).toBe(3)
  expect(calls.map(({ payloads }) => payloads.join('').replaceAll('\n', ''))).toStrictEqual([
    'abc',
    'ab',
    'a',
    'a',
    'b',
    'c',
  ])
  expect(retries).toBe(3)
})

describe('old rows', () => {
  afterEach(() => {
    jest.restoreAllMocks()
  })

  test('are stored by the statements that their pace makes of them, with the dead letters of each', async () => {
    async function* oneByOne(blocks: readonly BlockAtOffset[]) {
      for (const each of blocks) yield await Promise.resolve([each])
    }
    const findBadRows = (lines: readonly string[]): BadRows =>
      lines.flatMap((line, index) => (line.startsWith('bad') ? [{ index, reason: 'refused', text: 'no' }] : []))
    const batch = batchOf(blockOf('a', 'bad'), blockOf('b'), block('u', true))
    const result = await store(batch, [badData, 1, 2, 4], { policy: { ...live, statements: oneByOne }, findBadRows })
    expect(result.inserted).toBe(7)
    expect(result.calls.map(({ payloads }) => payloads)).toStrictEqual([['a\nbad\n'], ['a\n'], ['b\n'], ['u\n']])
    expect(result.dead.map(({ payload }) => payload.toString())).toStrictEqual(['bad\n'])
  })

  test('end a running insert once they were excluded for longer than an insert may take, live ones never do', async () => {
    const steps = Array.from({ length: 9 }, () => busy)
    const passMinutes = (): void => {
      let now = 0
      jest.spyOn(performance, 'now').mockImplementation(() => (now += 20_001))
    }
    passMinutes()
    const old = await store(singleBlock, [...steps.slice(0, 4), 1], { policy: { ...live, lockWait: backfillLockWait } })
    expect(old.replaced).toStrictEqual([false, false, false, true, false])
    expect(old.retries).toBe(0)
    passMinutes()
    const fresh = await store(singleBlock, [busy, busy, busy, 1])
    expect(fresh.replaced).toStrictEqual([false, false, false, false])
    // It is reported that something holds the live rows up.
    expect(fresh.retries).toBe(3)
  })
})

describe('the loss of a claim', () => {
  test('before the insert leaves the batch to the other member', async () => {
    const lost = new AbortController()
    lost.abort(new Error('the partition went to another member'))
    const { inserted, calls } = await store(singleBlock, [1], { lost })
    expect(inserted).toMatchObject({ message: 'the partition went to another member' })
    expect(calls).toHaveLength(0)
  })

  test('between two inserts of a batch ends the batch', async () => {
    const lost = new AbortController()
    const loses = (): Promise<Inserted> => {
      lost.abort(new Error('lost'))
      return Promise.resolve({ inserted: 1, readRows: 0 })
    }
    const statements: LanePolicy['statements'] = async function* (blocks) {
      for (const each of blocks) yield await Promise.resolve([each])
    }
    const { inserted, calls } = await store(batchOf(block('a'), block('b')), [loses, 1], {
      lost,
      policy: { ...live, statements },
    })
    expect(inserted).toMatchObject({ message: 'lost' })
    expect(calls).toHaveLength(1)
  })

  test.each([
    ['live', live],
    ['old', { ...live, lockWait: backfillLockWait }],
  ])('during the last insert of a batch of %s rows leaves what it has stored', async (_, policy) => {
    const lost = new AbortController()
    const loses = (): Promise<Inserted> => {
      lost.abort(new Error('lost'))
      return Promise.resolve({ inserted: 1, readRows: 0 })
    }
    const batch = batchOf(block('a'), block('b', true))
    const { inserted, calls } = await store(batch, [loses], { lost, policy })
    expect(inserted).toBe(1)
    expect(calls).toHaveLength(1)
  })

  test('while an insert fails ends the retries without a failure', async () => {
    const lost = new AbortController()
    const loses = (): Promise<Inserted> => {
      lost.abort(new Error('lost'))
      return Promise.reject(cancelled)
    }
    const { inserted, calls, retries } = await store(singleBlock, [loses, 1], { lost })
    expect(inserted).toBeInstanceOf(Error)
    expect(calls).toHaveLength(1)
    expect(retries).toBe(0)
  })

  test('during the delay before a retry ends the batch at once', async () => {
    const elapsedMs = startStopwatch()
    const script = [tooManyParts, tooManyParts, tooManyParts, tooManyParts, tooManyParts, tooManyParts, 1]
    const { inserted } = await store(singleBlock, script, { loseAtRetry: 'lost' })
    expect(inserted).toMatchObject({ message: 'lost' })
    expect(elapsedMs()).toBeLessThan(2_000)
  })
})
