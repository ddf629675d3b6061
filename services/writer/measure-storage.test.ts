import { afterEach, expect, test } from '@jest/globals'
import type { Block } from '@sluice/event-log/block'
import { unavailable } from '@sluice/runtime/errors'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { virtualClock } from '../../tests/support/virtual-clock.ts'
import { blockOfRows, createTestStores, event, type TestStores, timeoutMs } from '../../tests/support/writer.ts'
import { replayDeadLetters } from '../admin/replay-dead-letters/replay.ts'
import { storageMeter } from './measure-storage.ts'

let stores: TestStores
let running: Supervisor | undefined

afterEach(async () => {
  await running?.stop()
  await stores.drop()
})

async function valueOf(metrics: Metrics, name: string): Promise<number | undefined> {
  return (await metrics.getSingleMetric(name)?.get())?.values[0]?.value
}

const noPositions = { read: () => Promise.resolve(new Map<number, bigint>()) }

function letter(id: string): Block {
  const block = blockOfRows(1, [event(id)])
  const fault = { reason: 'refused', code: 117, text: 'unknown field', at: 1, partition: 1, offset: id } as const
  return { ...block, headers: { ...block.headers, letter: fault } }
}

async function watch(inserter: Pick<TestStores['inserter'], 'freeBytes'>) {
  const metrics = createMetrics()
  const { logger, lines } = capturedLogger()
  const { deadLetters } = stores
  const clock = virtualClock(Date.now())
  const options = { deadLetters, positions: noPositions, inserter, logger, metrics, clock, intervalMs: 10 }
  const component = storageMeter(options)
  running = supervise([component], logger)
  await running.start()
  return { metrics, lines, clock }
}

test('dead letters are counted until they are replayed, and the room on the disks is measured', async () => {
  stores = await createTestStores()
  const { metrics } = await watch(stores.inserter)
  await waitUntil(async () => (await valueOf(metrics, 'sluice_dead_letters_waiting')) === 0, 'none waits')
  await stores.deadLetters.publish([letter('1'), letter('2')], { timeoutMs })
  await waitUntil(async () => (await valueOf(metrics, 'sluice_dead_letters_waiting')) === 2, 'two wait')
  await replayDeadLetters(stores)
  await waitUntil(async () => (await valueOf(metrics, 'sluice_dead_letters_waiting')) === 0, 'none waits any more')
  await waitUntil(
    async () => ((await valueOf(metrics, 'sluice_clickhouse_disk_free_bytes')) ?? 0) > 1_000_000,
    'the disk has room',
  )
})

test('dead letters that wait for more than 300 days are counted before they are deleted', async () => {
  stores = await createTestStores()
  await stores.deadLetters.publish([letter('1'), letter('2')], { timeoutMs })
  const { metrics, clock } = await watch(stores.inserter)
  const expiring = () => valueOf(metrics, 'sluice_dead_letters_expiring')
  await waitUntil(async () => (await expiring()) === 0, 'none is old')
  await clock.advance(300 * 86_400_000 + 60_000)
  await waitUntil(async () => (await expiring()) === 2, 'two are old')
  await replayDeadLetters(stores)
  await waitUntil(async () => (await expiring()) === 0, 'none waits any more')
})

test('a disk that can not be measured has no value, which would be an alarm, and the reason is logged once', async () => {
  stores = await createTestStores()
  let calls = 0
  const { metrics, lines } = await watch({
    freeBytes: () => {
      calls++
      return Promise.reject(unavailable('ClickHouse: away'))
    },
  })
  await waitUntil(() => calls > 3, 'it was tried again')
  expect(await valueOf(metrics, 'sluice_clickhouse_disk_free_bytes')).toBeUndefined()
  expect(lines().filter(({ level }) => level === 'warn')).toMatchObject([
    { error: 'ClickHouse: away', msg: 'free disk space could not be measured' },
  ])
})
