import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-limits'
import { waitUntil } from '@sluice/runtime/wait-until'
import { exactClock } from '../support/clock.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { createTestStores, type RunningWriter, runWriter, type TestStores } from '../support/writer.ts'

const second = 1000
/** The lead of the gateway's clock over the machine's, in ms. */
let aheadMs = 0

let stores: TestStores
let gateway: TestGateway
let writer: RunningWriter
let markers = 0

beforeAll(async () => {
  stores = await createTestStores()
  const now = (): number => Date.now() + aheadMs
  gateway = await startGateway({
    log: stores.log,
    clock: { ...exactClock, now, earliest: now, latest: () => -Infinity },
  })
  writer = runWriter(stores)
})

afterAll(async () => {
  await writer.stop()
  await gateway.stop()
  await stores.drop()
})

/** Sends three copies of the event: one alone and two in a batch. */
async function send(event: object): Promise<void> {
  expect((await gateway.collect(event)).status).toBe(202)
  expect((await gateway.collectBatch({ events: [event, event] })).status).toBe(202)
}

async function countStored(siteId: string): Promise<number> {
  const { rows } = await stores.clickHouse.query<{ events: number }>(
    'SELECT count() AS events FROM events WHERE site_id = {site_id:String}',
    { site_id: siteId },
  )
  return rows[0]?.events ?? 0
}

/** Counts the events of a site once all events that were sent have been stored. */
async function count(siteId: string): Promise<number> {
  // Each partition is stored in order, and with this number of ids, every partition gets some of them.
  const later = Array.from({ length: 64 }, () => ({
    site_id: 'markers',
    event_type: 'marker',
    event_id: `marker-${markers++}`,
  }))
  expect((await gateway.collectBatch({ events: later })).status).toBe(202)
  await waitUntil(async () => (await countStored('markers')) === markers, 'the markers are stored')
  return countStored(siteId)
}

it('copies of an event without a timestamp count once within 15 minutes and as another event after that', async () => {
  const undated = { site_id: 'copies', event_type: 'x', event_id: 'e1' }
  const others = [
    { ...undated, event_id: 'e2' },
    { ...undated, site_id: 'elsewhere' },
  ]
  await send(undated)
  expect(await count('copies')).toBe(1)
  for (const other of others) await send(other)
  expect(await count('copies')).toBe(2)
  expect(await count('elsewhere')).toBe(1)

  aheadMs += eventLimits.copyWindowMs - 30 * second
  await send(undated)
  expect(await count('copies')).toBe(2)

  aheadMs += 60 * second
  await send(undated)
  expect(await count('copies')).toBe(3)
  // By now this event counts as a copy of the second one.
  await send(undated)
  expect(await count('copies')).toBe(3)
})
