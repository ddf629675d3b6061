import { afterEach, expect, test } from '@jest/globals'
import { keyHash } from '@sluice/events/key-hash'
import { type Shards, shardStore } from '@sluice/postgres/shards'
import { FatalError } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { startGateway, type StoredRow, type TestGateway } from '../../../tests/support/gateway.ts'
import { type RegisteredLog, registeredLog } from './registered-log.ts'

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

/** A log on stores that have recorded what `readState` returns. */
function logOf(readState: () => Promise<Shards>, leaseMs?: number): RegisteredLog {
  const log = {
    id: () => Promise.resolve('log'),
    partitions: () => Promise.resolve(4),
    publish: () => Promise.resolve(),
  }
  const stores = { watermarks: { isRegistered: () => Promise.resolve(true) }, shards: { readState } }
  return registeredLog(log, stores, capturedLogger().logger, { ...(leaseMs !== undefined && { leaseMs }) })
}

test.each([
  { number: 1, doublingSince: null, mayHaveSeveralShards: false },
  { number: 1, doublingSince: Date.now(), mayHaveSeveralShards: true },
  { number: 2, doublingSince: null, mayHaveSeveralShards: true },
])('until it has read %j, a gateway reckons with several shards', async ({ mayHaveSeveralShards, ...shards }) => {
  const registered = logOf(() => Promise.resolve(shards))
  expect(registered.mayHaveSeveralShards()).toBe(true)
  await registered.partitions()
  expect(registered.mayHaveSeveralShards()).toBe(mayHaveSeveralShards)
})

test('a gateway that could not read for a while whether there is one shard reckons with several', async () => {
  const registered = logOf(() => Promise.resolve({ number: 1, doublingSince: null }), 500)
  await registered.partitions()
  expect(registered.mayHaveSeveralShards()).toBe(false)
  await waitUntil(() => registered.mayHaveSeveralShards(), 'the lease has ended')
})

test('a running gateway hashes the ids that it makes once the number of shards is being doubled', async () => {
  gateway = await startGateway({ shards: 1 })
  await sendBatch(gateway)
  await shardStore(gateway.postgres).startDoubling()
  const { collectBatch, stored, log } = gateway
  let sent = 0
  await waitUntil(
    async () => {
      const site = `shop-${sent++}`
      const events = Array.from({ length: count }, () => ({ site_id: site, event_type: 'x' }))
      expect((await collectBatch({ events })).status).toBe(202)
      const partitions = new Set((await stored(site, count)).map(({ partition }) => partition))
      return partitions.size === (await log.partitions())
    },
    'made ids are in every partition',
    30_000,
  )
})

test('a gateway does not start on a log whose number of shards is not recorded', async () => {
  await expect(startGateway({ shards: null })).rejects.toThrow('Run "npm run migrate"')
})

test('a gateway does not start when the partitions are not spread evenly over the shards, and says what to do', async () => {
  const started = startGateway({ shards: 8 })
  await expect(started).rejects.toThrow(FatalError)
  await expect(started).rejects.toThrow('the number of partitions must be a multiple of 8')
})
