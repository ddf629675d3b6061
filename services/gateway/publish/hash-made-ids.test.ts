import { afterEach, expect, test } from '@jest/globals'
import { keyHash } from '@sluice/events/key-hash'
import { FatalError } from '@sluice/runtime/supervisor'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { startGateway, type StoredRow, type TestGateway } from '../../../tests/support/gateway.ts'
import { registeredLog } from './registered-log.ts'

let gateway: TestGateway | undefined

afterEach(async () => {
  await gateway?.stop()
  gateway = undefined
})

const count = 64
const batch = {
  events: Array.from({ length: count }, (_, n) => ({
    site_id: 'shop',
    event_type: 'x',
    ...(n % 4 === 0 && { event_id: `given-${n}` }),
  })),
}
const isMade = ({ row }: StoredRow): boolean => !row.event_id.startsWith('given-')
const hashed = async ({ log }: TestGateway, { row }: StoredRow): Promise<number> =>
  keyHash(row.site_id, row.event_id) % (await log.partitions())

async function sendBatch({ collectBatch, stored }: TestGateway): Promise<StoredRow[]> {
  expect((await collectBatch(batch)).status).toBe(202)
  return stored('shop', count)
}

test('with several shards, events with ids that the gateway made are in the partition of their hash', async () => {
  gateway = await startGateway({ shards: 2 })
  const rows = await sendBatch(gateway)
  for (const row of rows) expect(row.partition).toBe(await hashed(gateway, row))
  expect(new Set(rows.filter(isMade).map(({ partition }) => partition)).size).toBe(await gateway.log.partitions())
})

test('with one shard, events of a request with ids that the gateway made are in one partition', async () => {
  gateway = await startGateway({ shards: 1 })
  const made = (await sendBatch(gateway)).filter(isMade)
  expect(new Set(made.map(({ block }) => block)).size).toBe(1)
})

test.each([1, 2])('until it has read that there are %i, a gateway reckons with several shards', async (shards) => {
  const log = {
    id: () => Promise.resolve('log'),
    partitions: () => Promise.resolve(4),
    publish: () => Promise.resolve(),
  }
  const stores = {
    watermarks: { isRegistered: () => Promise.resolve(true) },
    shards: { read: () => Promise.resolve(shards) },
  }
  const registered = registeredLog(log, stores, capturedLogger().logger)
  expect(registered.maySpread()).toBe(true)
  await registered.partitions()
  expect(registered.maySpread()).toBe(shards > 1)
})

test('a gateway does not start on a log whose number of shards is not noted', async () => {
  await expect(startGateway({ shards: null })).rejects.toThrow('Run "npm run migrate"')
})

test('a gateway does not start when the partitions are not spread evenly over the shards, and says what to do', async () => {
  const started = startGateway({ shards: 8 })
  await expect(started).rejects.toThrow(FatalError)
  await expect(started).rejects.toThrow('the number of partitions must be a multiple of 8')
})
