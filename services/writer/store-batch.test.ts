import { describe, expect, test } from '@jest/globals'
import type { Block } from '@sluice/contracts/block'
import { ClickHouseError, clickHouseCode } from '@sluice/clickhouse/errors'
import type { EventBatch, EventInserter, InsertOptions } from '@sluice/clickhouse/insert-events'
import type { LogBatch } from '@sluice/event-log/log'
import { capturedLogger } from '@sluice/runtime/testing'
import { storeBatch, type Stored } from './store-batch.ts'

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

/** What an inserter does, one call after the other: stores so many rows, or fails. */
type Inserted = Awaited<ReturnType<EventInserter['insert']>>
type Step = number | Error | (() => Promise<Inserted>)

function scripted(...steps: Step[]) {
  const calls: { payloads: string[]; undated: boolean; options: InsertOptions }[] = []
  const insert = ({ payloads, undated }: EventBatch, options: InsertOptions): Promise<Inserted> => {
    const step = steps[calls.length] ?? new Error('one insert more than the script has')
    calls.push({ payloads: payloads.map((payload) => payload.toString()), undated, options })
    if (typeof step === 'function') return step()
    return typeof step === 'number' ? Promise.resolve({ inserted: step, readRows: 0 }) : Promise.reject(step)
  }
  return { calls, insert }
}

type BadRows = Awaited<ReturnType<EventInserter['findBadRows']>>

interface StoreOptions {
  firstOfClaim?: boolean
  lost?: AbortController
  /** Aborts `lost` at the first failure that is followed by another attempt. */
  loseAtRetry?: string
  /** What the rows turn out to be when they are asked about. */
  findBadRows?: (lines: readonly string[]) => BadRows
}

/** Stores a batch by a script; `replaced` says which of its inserts ended others first. */
async function store(
  batch: LogBatch,
  steps: Step[],
  { firstOfClaim = false, lost = new AbortController(), loseAtRetry, findBadRows = () => [] }: StoreOptions = {},
) {
  const { calls, insert } = scripted(...steps)
  const { logger, lines } = capturedLogger()
  let retries = 0
  const stored = storeBatch(
    batch,
    { firstOfClaim, signal: lost.signal },
    {
      inserter: {
        insert,
        findBadRows: (lines) => Promise.resolve(findBadRows(lines.map((line) => line.toString()))),
      },
      inTurn: (work) => work(),
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
    replaced: calls.map(({ options }) => options.replaceRunning),
    retries,
    lines: lines(),
  }
}

const one = batchOf(block('a'))

test('a batch is one insert, named after log and partition, which tells how many rows were new', async () => {
  const { inserted, calls, retries } = await store(batchOf(block('a'), block('b')), [2])
  expect(inserted).toBe(2)
  expect(calls).toStrictEqual([
    {
      payloads: ['a\n', 'b\n'],
      undated: false,
      options: { queryId: 'writer-log-1-3', replaceRunning: false, timeoutMs: 60_000 },
    },
  ])
  expect(retries).toBe(0)
})

test('dated and undated blocks are an insert each, and their rows add up', async () => {
  const { inserted, calls } = await store(batchOf(block('a', true), block('b'), block('c', true)), [1, 2])
  expect(inserted).toBe(3)
  expect(calls.map(({ payloads, undated }) => [undated, payloads])).toStrictEqual([
    [false, ['b\n']],
    [true, ['a\n', 'c\n']],
  ])
  expect(new Set(calls.map(({ options }) => options.queryId)).size).toBe(1)
})

describe('a running insert of the same id is ended', () => {
  test('by the first insert of a claim, and by no other', async () => {
    expect((await store(one, [1], { firstOfClaim: true })).replaced).toStrictEqual([true])
    expect((await store(batchOf(block('a'), block('b', true)), [1, 1], { firstOfClaim: true })).replaced).toStrictEqual(
      [true, false],
    )
    expect((await store(one, [1])).replaced).toStrictEqual([false])
  })

  test('by the insert after one of our own that got no answer: it may still run', async () => {
    expect((await store(one, [noAnswer, 1])).replaced).toStrictEqual([false, true])
    expect((await store(one, [noAnswer, noAnswer, 1])).replaced).toStrictEqual([false, true, true])
    expect((await store(one, [new Error('broken'), 1])).replaced).toStrictEqual([false, true])
  })

  test('not when another runs (216): it is waited for', async () => {
    expect((await store(one, [busy, busy, 1])).replaced).toStrictEqual([false, false, false])
    expect((await store(one, [busy, 1], { firstOfClaim: true })).replaced).toStrictEqual([true, false])
  })

  test('not when ours was ended by another (394): that one has the partition, or we wait for it', async () => {
    expect((await store(one, [cancelled, 1])).replaced).toStrictEqual([false, false])
    expect((await store(one, [noAnswer, cancelled, 1])).replaced).toStrictEqual([false, true, false])
  })

  test('not after a refusal: that insert is over', async () => {
    expect((await store(one, [tooManyParts, 1])).replaced).toStrictEqual([false, false])
  })

  test('still, when the first of a claim was refused for another reason', async () => {
    expect((await store(one, [tooManyParts, 1], { firstOfClaim: true })).replaced).toStrictEqual([true, true])
  })
})

test('a failed insert is repeated until it succeeds, is counted and logged; rows count once', async () => {
  const { inserted, calls, retries, lines } = await store(batchOf(block('a'), block('b', true)), [
    tooManyParts,
    noAnswer,
    noTable,
    5,
    busy,
    7,
  ])
  expect(inserted).toBe(12)
  expect(calls.map(({ undated }) => undated)).toStrictEqual([false, false, false, false, true, true])
  expect(retries).toBe(4)
  expect(lines).toHaveLength(4)
  const msg = 'a batch is not stored, it is tried again'
  expect(lines[0]).toMatchObject({ level: 'warn', partition: 3, attempt: 1, msg })
  // Nobody but a person mends that.
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

describe('rows that can’t be read', () => {
  const refused = { reason: 'refused' as const, code: 27, text: 'no number' }
  /** Finds the lines that say so. */
  const findBadRows = (lines: readonly string[]): BadRows =>
    lines.flatMap((line, index) => (line.startsWith('bad') ? [{ index, ...refused }] : []))

  test('are dead letters with their bytes, reason and place; all others are stored', async () => {
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

  test('when there is no other row, nothing is inserted', async () => {
    const { inserted, dead, calls } = await store(batchOf(blockOf('bad')), [badData], { findBadRows })
    expect([inserted, dead.length, calls.length]).toStrictEqual([0, 1, 1])
  })

  test('keep their kind, and do not touch the batch’s other kind', async () => {
    const undated = { ...blockOf('bad', 'c') }
    undated.headers = { ...undated.headers, undated: true }
    const { dead, calls } = await store(batchOf(blockOf('a'), undated), [1, badData, 1], { findBadRows })
    expect(calls.map(({ undated: kind, payloads }) => [kind, payloads])).toStrictEqual([
      [false, ['a\n']],
      [true, ['bad\nc\n']],
      [true, ['c\n']],
    ])
    expect(dead.map(({ headers }) => headers.undated)).toStrictEqual([true])
  })

  test('no row is given up for what is not its fault: the insert is repeated', async () => {
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

  test('the first insert of a claim still ends another’s, and the one after it does not', async () => {
    const batch = batchOf(blockOf('a', 'bad'), { ...block('u', true) })
    const { replaced } = await store(batch, [badData, 1, 1], { findBadRows, firstOfClaim: true })
    expect(replaced).toStrictEqual([true, true, false])
  })
})

describe('records that are no blocks', () => {
  const foreign: [string, Partial<Block['headers']>, string, string][] = [
    ['without our headers', { v: 0 as never, rows: 0 }, 'anything', 'unreadable'],
    ['of a version that no newer writer of ours will have soon', { v: 11 as never }, 'a\n', 'unreadable'],
    ['with a number of somebody else’s for a version', { v: 1767225600000 as never }, 'a\n', 'unreadable'],
    ['with fewer rows than they say', { rows: 3 }, 'a\nb\n', 'row_count'],
    ['with more', { rows: 1 }, 'a\nb\n', 'row_count'],
    ['cut short', { rows: 2 }, 'a\nb', 'row_count'],
    ['empty', { rows: 0 }, '', 'row_count'],
  ]
  test.each(foreign)('%s: dead letters, whole; the blocks beside them are stored', async (_, headers, text, reason) => {
    const payload = Buffer.from(text)
    const record = { partition: 3, headers: { v: 1 as const, rows: 1, bytes: payload.length, ...headers }, payload }
    const { inserted, dead, calls } = await store(batchOf(block('a'), record, block('b')), [2])
    expect(inserted).toBe(2)
    expect(calls.map(({ payloads }) => payloads)).toStrictEqual([['a\n', 'b\n']])
    expect(dead).toMatchObject([{ payload, headers: { rows: record.headers.rows, letter: { reason, offset: '11' } } }])
  })

  test('of a newer version: the batch waits for a newer writer, loudly, and loses nothing', async () => {
    const newer = { ...block('b'), headers: { ...block('b').headers, v: 2 as never } }
    const { inserted, dead, calls, lines } = await store(batchOf(block('a'), newer), [1], { loseAtRetry: 'stopped' })
    expect(inserted).toMatchObject({ message: 'stopped' })
    expect([dead, calls]).toStrictEqual([[], []])
    expect(JSON.stringify(lines[0])).toContain('upgrade the writer')
    expect(lines[0]).toMatchObject({ level: 'error' })
  })
})

test('an insert that is too much at once is halved, down to a block, which is repeated', async () => {
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
  expect(retries).toBe(1)
})

describe('a claim that is lost', () => {
  test('before the insert: nothing is inserted, and the batch is left to the other member', async () => {
    const lost = new AbortController()
    lost.abort(new Error('the partition went to another member'))
    const { inserted, calls } = await store(one, [1], { lost })
    expect(inserted).toMatchObject({ message: 'the partition went to another member' })
    expect(calls).toHaveLength(0)
  })

  test('between two inserts of a batch ends it', async () => {
    const lost = new AbortController()
    const loses = (): Promise<Inserted> => {
      lost.abort(new Error('lost'))
      return Promise.resolve({ inserted: 1, readRows: 0 })
    }
    const { inserted, calls } = await store(batchOf(block('a'), block('b', true)), [loses, 1], { lost })
    expect(inserted).toMatchObject({ message: 'lost' })
    expect(calls).toHaveLength(1)
  })

  test('while an insert fails is not repeated, and no failure of ours', async () => {
    const lost = new AbortController()
    const loses = (): Promise<Inserted> => {
      lost.abort(new Error('lost'))
      return Promise.reject(cancelled)
    }
    const { inserted, calls, retries } = await store(one, [loses, 1], { lost })
    expect(inserted).toBeInstanceOf(Error)
    expect(calls).toHaveLength(1)
    expect(retries).toBe(0)
  })

  test('while the next try is waited for ends at once', async () => {
    const started = performance.now()
    const script = [busy, busy, busy, busy, busy, busy, busy, 1]
    const { inserted } = await store(one, script, { loseAtRetry: 'lost' })
    expect(inserted).toMatchObject({ message: 'lost' })
    expect(performance.now() - started).toBeLessThan(2_000)
  })
})
