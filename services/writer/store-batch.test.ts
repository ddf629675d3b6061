import { describe, expect, test } from '@jest/globals'
import type { Block } from '@sluice/contracts/block'
import { ClickHouseError, clickHouseCode } from '@sluice/clickhouse/errors'
import type { EventBatch, EventInserter, InsertOptions } from '@sluice/clickhouse/insert-events'
import type { Claim, LogBatch } from '@sluice/event-log/log'
import { capturedLogger } from '@sluice/runtime/testing'
import { storeBatch } from './store-batch.ts'

const busy = new ClickHouseError(clickHouseCode.queryWithSameIdIsAlreadyRunning, 'a query of this id is running')
const cancelled = new ClickHouseError(clickHouseCode.queryWasCancelled, 'query was cancelled')
const noAnswer = new ClickHouseError(undefined, 'socket hang up')
const timedOut = new ClickHouseError(159, 'timeout exceeded')
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

/** Stores a batch by a script; `replaced` says which of its inserts ended others first. */
async function store(
  batch: LogBatch,
  steps: Step[],
  { firstOfClaim = false, lost = new AbortController() }: { firstOfClaim?: boolean; lost?: AbortController } = {},
) {
  const { calls, insert } = scripted(...steps)
  const { logger, lines } = capturedLogger()
  let retries = 0
  const claim: Pick<Claim, 'partition' | 'lost'> = { partition: 3, lost: lost.signal }
  const stored = storeBatch(
    batch,
    { claim: claim as Claim, firstOfClaim },
    {
      inserter: { insert },
      logId: 'log-1',
      logger,
      onRetry: () => {
        retries++
      },
    },
  )
  const inserted = await stored.catch((error: unknown) => error)
  return { inserted, calls, replaced: calls.map(({ options }) => options.replaceRunning), retries, lines: lines() }
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
    expect((await store(one, [timedOut, 1])).replaced).toStrictEqual([false, false])
  })

  test('still, when the first of a claim was refused for another reason', async () => {
    expect((await store(one, [timedOut, 1], { firstOfClaim: true })).replaced).toStrictEqual([true, true])
  })
})

test('a failed insert is repeated until it succeeds, is counted and logged; rows count once', async () => {
  const { inserted, calls, retries, lines } = await store(batchOf(block('a'), block('b', true)), [
    timedOut,
    noAnswer,
    badData,
    5,
    busy,
    7,
  ])
  expect(inserted).toBe(12)
  expect(calls.map(({ undated }) => undated)).toStrictEqual([false, false, false, false, true, true])
  expect(retries).toBe(4)
  expect(lines).toHaveLength(4)
  expect(lines[0]).toMatchObject({ level: 'warn', partition: 3, attempt: 1, msg: 'insert failed, it is repeated' })
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
    const lost = new AbortController()
    const started = performance.now()
    const stored = store(one, [busy, busy, busy, busy, busy, busy, busy, 1], { lost })
    setTimeout(() => {
      lost.abort(new Error('lost'))
    }, 50)
    const { inserted } = await stored
    expect(inserted).toMatchObject({ message: 'lost' })
    expect(performance.now() - started).toBeLessThan(2_000)
  })
})
