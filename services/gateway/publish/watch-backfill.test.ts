import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import type { EventLog } from '@sluice/event-log/log'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { watchBackfill } from './watch-backfill.ts'

let gateway: TestGateway
let running: Supervisor | undefined

beforeEach(async () => {
  gateway = await startGateway()
})

afterEach(async () => {
  await running?.stop()
  running = undefined
  await gateway.stop()
})

/** The number of blocks in a log. */
async function blocksIn(log: EventLog): Promise<number> {
  return (await log.endOffsets()).reduce((sum, end) => sum + Number(end), 0)
}

const oldEvent = { site_id: 'shop', event_type: 'x', timestamp: Date.now() - backfillAgeMs - 60_000 }

test('a gateway publishes old events to the backfill log once a writer has reported that it reads it', async () => {
  const { log, backfill, postgres } = gateway
  expect((await gateway.collect(oldEvent)).status).toBe(202)
  expect([await blocksIn(log), await blocksIn(backfill)]).toStrictEqual([1, 0])

  await watermarkStore(postgres).advance(await log.id(), [undefined], 'backfill')
  await waitUntil(async () => {
    expect((await gateway.collect(oldEvent)).status).toBe(202)
    return (await blocksIn(backfill)) > 0
  }, 'an old event in its log')
  const before = await blocksIn(log)
  const batch = [oldEvent, { ...oldEvent, timestamp: Date.now() }, { site_id: 'shop', event_type: 'x' }]
  expect((await gateway.collectBatch(batch.map((event) => JSON.stringify(event)).join('\n'), ndjson)).status).toBe(202)
  expect([await blocksIn(log), await blocksIn(backfill)]).toStrictEqual([before + 1, 2])
})

const ndjson = { headers: { 'Content-Type': 'application/x-ndjson' } }

test('a backfill log with another number of partitions is not used', async () => {
  const { log, backfill, postgres } = gateway
  await watermarkStore(postgres).advance(await log.id(), [undefined], 'backfill')
  const equal = await log.partitions()
  let asked = 0
  const partitions = (): Promise<number> => {
    asked++
    return Promise.resolve(asked < 5 ? equal - 1 : equal)
  }
  const watch = watchBackfill({
    log,
    backfill: { ...backfill, partitions },
    store: watermarkStore(postgres),
    intervalMs: 1,
  })
  running = supervise([watch], capturedLogger().logger)
  await running.start()
  await waitUntil(() => asked >= 4, 'some polls')
  expect(watch.isRead()).toBe(asked >= 5)
  await waitUntil(() => watch.isRead(), 'equal numbers')
})
