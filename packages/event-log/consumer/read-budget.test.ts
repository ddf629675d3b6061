import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { block, bufferBytes, collect } from '../conformance/collect.ts'
import { openSqliteLog } from '../sqlite/sqlite-log.ts'
import { readBudget } from './read-budget.ts'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte

test('a process that reads many partitions holds no more than its budget allows', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-budget-'))
  const partitions = 32
  const blocksEach = 6
  const log = await openSqliteLog(dir, { logger: silentLogger, partitions })
  for (let n = 0; n < blocksEach; n++) {
    const blocks = Array.from({ length: partitions }, (_, partition) => block(partition, 'a', {}, 256 * kibibyte))
    await log.publish(blocks, { timeoutMs: 30_000 })
  }

  const gate = Promise.withResolvers<undefined>()
  const before = bufferBytes()
  const options = { batchBytesMax: mebibyte, budget: readBudget(8 * mebibyte) }
  const reader = collect(log, 'group', options, () => gate.promise)
  const readPartitions = () => new Set(reader.batches.map(({ partition }) => partition)).size
  await waitUntil(() => readPartitions() === partitions, 'every partition has its batch', 120_000)
  // Each measurement collects all garbage, which takes a second in a large process. Changes by less than a block do not
  // come from the log.
  let last = bufferBytes()
  let equalLooks = 0
  const isSettled = (): boolean => {
    const now = bufferBytes()
    equalLooks = Math.abs(now - last) < 256 * kibibyte ? equalLooks + 1 : 0
    last = now
    return equalLooks >= 5
  }
  await waitUntil(isSettled, 'no more is read', 120_000)
  // At most one and a half times the budget, and the sizes of single blocks. Without the budget it would be all 48 MiB.
  expect((last - before) / mebibyte).toBeLessThan(24)

  gate.resolve(undefined)
  await waitUntil(() => reader.committed.length === partitions * blocksEach, 'all blocks', 120_000)
  await log.close()
  await rm(dir, { recursive: true })
})

test('claims share a budget: a lone one gets half, and one that holds nothing may always read', () => {
  const budget = readBudget(100)
  const ignore = () => undefined
  const first = budget.open(ignore)
  first.add(49)
  expect(first.mayRead()).toBe(true)
  first.add(1)
  expect(first.mayRead()).toBe(false)

  let released = 0
  const second = budget.open(() => released++)
  second.add(24)
  expect(second.mayRead()).toBe(true)
  second.add(1)
  expect(second.mayRead()).toBe(false)
  expect(second.free()).toBe(25)
  first.add(60)
  expect(budget.open(ignore).mayRead()).toBe(true)

  first.add(-90)
  expect(released).toBe(1)
  expect(second.mayRead()).toBe(true)
  first.close()
  second.close()
  expect(second.free()).toBe(100)
})

test('a read brings half of the budget from all partitions together', () => {
  const budget = readBudget(256 * mebibyte)
  expect([1, 8, 16, 128, 1_000_000].map((partitions) => budget.pieceBytes(partitions) / mebibyte)).toEqual([
    16,
    16,
    8,
    1,
    1 / 16,
  ])
  const shared = readBudget(256 * mebibyte, { consumers: 2 })
  expect([1, 8, 16].map((partitions) => shared.pieceBytes(partitions) / mebibyte)).toEqual([16, 8, 4])
  expect(readBudget(Infinity).pieceBytes(100)).toBe(16 * mebibyte)
})
