import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { importStore } from '@sluice/postgres/imports'
import { waitUntil } from '@sluice/runtime/wait-until'
import { uploadFile } from '../tests/support/uploaded-import.ts'
import { fillEvents } from './fill-events.ts'
import { startJobs } from './jobs-rig.ts'
import { producerLines } from './producers.ts'
import { rounded } from './report.ts'
import { isPlain } from './shapes.ts'

/** BENCH_EVENTS=200000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
/** Events that the site has before, of the year of the imported ones: 50000000 for S11 in a large site. */
const siteEvents = Number(process.env.BENCH_SITE_EVENTS ?? 0)
const siteId = 'big'
const deadlineMs = 3_600_000

/**
 * One import of a CSV file from queued to completed, with no live events beside it: events in the shapes of real
 * producers, scattered over a year, and a bad record after each thousandth.
 */
export async function importEvents(): Promise<object> {
  const rig = await startJobs()
  const { postgres, worker } = rig
  try {
    const imports = importStore(postgres)
    const blobs = await openBlobStore(rig.blobsUrl)
    if (siteEvents > 0) {
      const clickHouse = openClickHouse(rig.clickHouseUrl)
      await fillEvents(clickHouse, { site: siteId, events: siteEvents, end: Date.now(), days: 365 })
      await clickHouse.close()
    }
    const rssBefore = await worker.rssPeakMib()
    const { importId } = await uploadFile({ imports, blobs }, csvOf(events), { siteId })
    const startedAt = performance.now()
    let publishedS = 0
    await waitUntil(
      async () => {
        const record = await imports.find(importId, null)
        if (publishedS === 0 && record?.processedRecords === record?.totalRecords) {
          publishedS = (performance.now() - startedAt) / 1000
        }
        return record?.status === 'completed'
      },
      'the import is completed',
      deadlineMs,
    )
    const seconds = (performance.now() - startedAt) / 1000
    return {
      events,
      site_events: siteEvents,
      rows_per_second: Math.round(events / seconds),
      seconds: rounded(seconds),
      published_s: rounded(publishedS),
      worker_rss_mib: { before: rssBefore, peak: await worker.rssPeakMib() },
    }
  } finally {
    await rig.stop()
  }
}

/** The columns that every import of events has at least, and further ones of the shapes of producers. */
const columns = [
  ...['event_type', 'session_id', 'user_id', 'url', 'country'],
  ...(isPlain ? [] : ['referrer', 'device_type', 'anonymous_id', 'properties']),
]

/** A CSV file of `count` events over the year before now, with a bad record after each thousandth. */
export function* csvOf(count: number): Generator<string> {
  const records = producerLines.map((line) => {
    const event = JSON.parse(line) as Record<string, unknown>
    return columns.map((name) => cellOf(event[name])).join(',')
  })
  const end = Date.now()
  yield `event_id,timestamp_ms,${columns.join(',')}\n`
  for (let n = 0; n < count; n++) {
    const timestamp = end - ((n * 7_919_003) % (365 * 86_400_000))
    yield `order-${n},${timestamp},${records[n % records.length] ?? ''}\n`
    if (n % 1_000 === 999) yield `bad-${n},yesterday${','.repeat(columns.length)}\n`
  }
}

function cellOf(value: unknown): string {
  const text = typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
