import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-limits'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Client, client, waitForCount } from '../support/client.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'

const second = 1000
/** Each SIGUSR2 sets the clock of the process forward by the next of these durations, in ms. */
const jumps = [eventLimits.copyWindowMs - 30 * second, 60 * second]
const movableClock = `
  const { now } = Date
  const jumps = ${JSON.stringify(jumps)}
  let ahead = 0
  Date.now = () => now() + ahead
  process.on('SIGUSR2', () => (ahead += jumps.shift() ?? 0))`

let folder: string
let process: ServiceProcess
let sluice: Client
let key: string
let markers = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-copies-'))
  process = await startService('standalone', {
    SLUICE_DATA_DIR: join(folder, 'data'),
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(movableClock)}`,
  })
  key = /svc_prod_\w+/.exec(process.output())?.[0] ?? ''
  sluice = client({ gatewayUrl: process.url, queryUrl: process.url, key })
}, 60_000)

afterAll(async () => {
  await process.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Sets the clock forward by the next jump. */
async function jump(): Promise<void> {
  const clock = async (): Promise<number> => {
    const response = await fetch(`${process.url}/healthz`)
    return ((await response.json()) as { timestamp: number }).timestamp
  }
  const before = await clock()
  process.signal('SIGUSR2')
  await waitUntil(async () => (await clock()) - before > 50 * second, 'the clock has jumped')
}

/** Sends three copies of the event: one alone and two in a batch. */
async function send(event: object): Promise<void> {
  const alone = await fetch(`${process.url}/collect`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(event),
  })
  expect(alone.status).toBe(202)
  expect((await sluice.collectBatch([event, event])).status).toBe(202)
}

/** Counts the events of a site once all events that were sent have been processed. */
async function count(siteId: string): Promise<number> {
  // Each partition is stored in order, and so many ids reach every partition.
  const later = Array.from({ length: 64 }, () => ({
    site_id: 'markers',
    event_type: 'marker',
    event_id: `marker-${markers++}`,
  }))
  expect((await sluice.collectBatch(later)).status).toBe(202)
  await waitForCount(sluice, 'markers', markers)
  const { data } = await sluice.stats({ site_id: siteId, metric: 'event_count', start_date: 31_536_000_000 })
  return data.value
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

  await jump()
  await send(undated)
  expect(await count('copies')).toBe(2)

  await jump()
  await send(undated)
  expect(await count('copies')).toBe(3)
  // By now this event counts as a copy of the second one.
  await send(undated)
  expect(await count('copies')).toBe(3)
}, 60_000)
