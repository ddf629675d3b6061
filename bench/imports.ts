import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { importStore } from '@sluice/postgres/imports'
import { openPostgres } from '@sluice/postgres/open'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { testSecretsKey } from '../tests/support/secrets-key.ts'
import { spawnProgram } from '../tests/support/service-process.ts'
import { uploadFile } from '../tests/support/uploaded-import.ts'
import { producerLines } from './producers.ts'
import { rounded } from './report.ts'
import { isPlain } from './shapes.ts'
import { startMeasured } from './sluice-rig.ts'

/** BENCH_EVENTS=200000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
const deadlineMs = 3_600_000

/**
 * One import of a CSV file from queued to completed, with no live events beside it: events in the shapes of real producers,
 * scattered over a year, and a bad record after each thousandth.
 */
export async function importEvents(): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const [kafka, clickHouse, engine] = await Promise.all([
    startKafka({ dir: join(folder, 'kafka') }),
    startClickHouse({ dir: join(folder, 'clickhouse') }),
    startPostgres({ dir: join(folder, 'postgres') }),
  ])
  const environment = {
    SLUICE_LOG_URL: `kafka://${kafka.brokers}/bench.events`,
    SLUICE_CLICKHOUSE_URL: clickHouse.url,
    SLUICE_POSTGRES_URL: engine.url,
    SLUICE_BLOBS_URL: `file:${join(folder, 'blobs')}`,
    SLUICE_SECRETS_KEY: testSecretsKey,
  }
  const migrated = await spawnProgram('admin/migrate/main', environment)
  if ((await migrated.exited) !== 0) throw new Error(`migrate failed: ${migrated.output()}`)
  const postgres = openPostgres(engine.url)
  const writer = await startMeasured('writer', environment)
  const worker = await startMeasured('worker', environment)
  try {
    const imports = importStore(postgres)
    const blobs = await openBlobStore(environment.SLUICE_BLOBS_URL)
    const rssBefore = await worker.rssPeakMib()
    const { importId } = await uploadFile({ imports, blobs }, csvOf(events))
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
      rows_per_second: Math.round(events / seconds),
      seconds: rounded(seconds),
      published_s: rounded(publishedS),
      worker_rss_mib: { before: rssBefore, peak: await worker.rssPeakMib() },
    }
  } finally {
    await Promise.all([worker.stop(), writer.stop()])
    await postgres.close()
    await Promise.all([kafka.stop(), clickHouse.stop(), engine.stop()])
    await rm(folder, { recursive: true, force: true })
  }
}

/** The columns that every import of events has at least, and further ones of the shapes of producers. */
const columns = [
  ...['event_type', 'session_id', 'user_id', 'url', 'country'],
  ...(isPlain ? [] : ['referrer', 'device_type', 'anonymous_id', 'properties']),
]

function* csvOf(count: number): Generator<string> {
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
