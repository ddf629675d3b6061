import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startPostgres } from '@sluice/engines/postgres'
import { findFreePort } from '@sluice/engines/processes'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { type ClickHouse, parseClickHouseUrl } from '@sluice/event-store/clickhouse/client'
import { externalTableForm } from '@sluice/event-store/clickhouse/external-table'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { insertNewEventsStatement } from '@sluice/event-store/insert/insert-new-events-statement'
import { migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { type ClickHouseRig, startClickHouseRig } from './clickhouse-rig.ts'
import { rounded } from './report.ts'
import { producerRows } from './writer-rows.ts'

/** BENCH_EVENTS=200000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 5_000_000)
const partitions = 8
const blockRows = 500
/** Bytes of a full batch of the writer. */
const batchBytes = 16 * 2 ** 20
const pollMs = 100

interface Drained {
  rowsPerSecond: number
  clickHouseCpuPerMillion: number
}

/**
 * S3: one writer process drains a backlog of events in the shapes of real producers in Kafka, compared with curl, which
 * posts the same rows with the same statement and the same concurrency. Meanwhile the broker serves only the writer.
 */
export async function writerBacklog(): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const clickHouse = await startClickHouseRig(join(folder, 'clickhouse'))
  const [kafka, postgres] = await Promise.all([
    startKafka({ dir: join(folder, 'kafka'), isOptimised: true }),
    startPostgres({ dir: join(folder, 'postgres') }),
  ])
  const database = openPostgres(postgres.url)
  await migratePostgres(database)
  await database.close()
  const logUrl = `kafka://${kafka.brokers}/bench.events`
  try {
    await ensureTopics(logUrl, { partitions })
    await fill(logUrl)
    const files = await writeFiles(folder)

    const reference = await clickHouse.database('sluice_reference')
    const curl = await measure(clickHouse, reference.clickHouse, () => postFiles(files, reference.url))
    await clickHouse.settle()
    const ours = await clickHouse.database('sluice_writer')
    const writerProcess = await startWriter(logUrl, ours.url, postgres.url)
    const writer = await measure(clickHouse, ours.clickHouse, () => Promise.resolve())
    const figures = await writerProcess.figures()
    await writerProcess.stop()
    return {
      bar: 0.8,
      ratio: rounded(writer.rowsPerSecond / curl.rowsPerSecond),
      rows: events,
      writer: { ...figures, ...writer },
      curl,
    }
  } finally {
    await Promise.all([kafka.stop(), postgres.stop(), clickHouse.stop()])
    await rm(folder, { recursive: true, force: true })
  }
}

/** The partition of the block that begins with row `from`: blocks are distributed in turn. */
const partitionOf = (from: number): number => (from / blockRows) % partitions

async function fill(logUrl: string): Promise<void> {
  const ignore = (): void => undefined
  const log = await openEventLog(logUrl, {
    logger: { debug: ignore, info: ignore, warn: console.error, error: console.error },
  })
  for (let from = 0; from < events;) {
    const blocks = []
    for (; from < events && blocks.length < 32; from += blockRows) {
      const rows = Math.min(blockRows, events - from)
      const payload = producerRows(from, rows)
      blocks.push({ partition: partitionOf(from), headers: { v: 1 as const, rows, bytes: payload.length }, payload })
    }
    await log.publish(blocks, { timeoutMs: 30_000 })
  }
  await log.close()
}

/** Writes the rows to files in the same batches as the writer's, each of one partition; returns the paths. */
async function writeFiles(folder: string): Promise<string[]> {
  const open = Array.from({ length: partitions }, () => ({ bytes: 0, parts: [] as Buffer[] }))
  const files: string[] = []
  const close = async (batch: (typeof open)[number]): Promise<void> => {
    const file = join(folder, `batch-${files.length}`)
    files.push(file)
    await writeFile(file, Buffer.concat(batch.parts))
    batch.bytes = 0
    batch.parts = []
  }
  for (let from = 0; from < events; from += blockRows) {
    const batch = open[partitionOf(from)]
    if (batch === undefined) continue
    const payload = producerRows(from, Math.min(blockRows, events - from))
    if (batch.bytes + payload.length > batchBytes) await close(batch)
    batch.parts.push(payload)
    batch.bytes += payload.length
  }
  for (const batch of open) if (batch.bytes > 0) await close(batch)
  return files
}

async function postFiles(files: readonly string[], url: string): Promise<void> {
  const address = parseClickHouseUrl(url)
  const { url: target, fields } = externalTableForm(address, {
    ...insertNewEventsStatement(
      { id: await storeIdAt(url), position: undefined },
      { hasUndated: false, comparesTombstones: false },
    ),
    timeoutMs: 60_000,
  })
  const texts = fields.flatMap(([name, value]) => ['--form-string', `${name}=${value}`])
  const run = promisify(execFile)
  const waiting = [...files]
  const post = async (): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const user = `${address.username}:${address.password}`
      const form = [...texts, '-F', `b=@${file};filename=b`]
      await run('curl', ['-sS', '--fail-with-body', '-u', user, ...form, target])
    }
  }
  await Promise.all(Array.from({ length: Math.max(2, availableParallelism()) }, post))
}

async function storeIdAt(url: string): Promise<string> {
  const inserter = openEventInserter(url)
  try {
    return await inserter.storeId()
  } finally {
    await inserter.close()
  }
}

/** Measures from the first stored row to the last one, so that the time to start is left out. */
async function measure(rig: ClickHouseRig, clickHouse: ClickHouse, work: () => Promise<void>): Promise<Drained> {
  const count = async (): Promise<number> => {
    const { rows } = await clickHouse.query<{ rows: number }>('SELECT count() AS rows FROM events')
    return rows[0]?.rows ?? 0
  }
  const cpuBefore = await rig.cpuSeconds()
  const working = work()
  let first: { at: number; rows: number } | undefined
  for (;;) {
    const rows = await count()
    const at = performance.now()
    if (rows > 0) first ??= { at, rows }
    if (rows >= events && first) {
      await working
      const cpu = (await rig.cpuSeconds()) - cpuBefore
      return {
        rowsPerSecond: Math.round((rows - first.rows) / ((at - first.at) / 1000)),
        clickHouseCpuPerMillion: rounded((cpu / events) * 1e6),
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
}

/** Starts the service as in production. */
async function startWriter(logUrl: string, clickHouseUrl: string, postgresUrl: string) {
  const metricsPort = await findFreePort()
  const program = fileURLToPath(new URL('../services/writer/main.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
    env: {
      SLUICE_HOST: '127.0.0.1',
      SLUICE_PORT: '0',
      SLUICE_METRICS_PORT: String(metricsPort),
      SLUICE_LOG_URL: logUrl,
      SLUICE_CLICKHOUSE_URL: clickHouseUrl,
      SLUICE_POSTGRES_URL: postgresUrl,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  return {
    /** Figures of the process so far. */
    figures: async () => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
      const figure = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
      return {
        writerCpuPerMillion: rounded((figure('process_cpu_seconds_total') / events) * 1e6),
        rssMib: Math.round(figure('process_resident_memory_bytes') / 2 ** 20),
        rowsPerBatch: Math.round(figure('sluice_writer_batch_rows_sum') / figure('sluice_writer_batch_rows_count')),
      }
    },
    stop: async () => {
      child.kill('SIGTERM')
      await exited
    },
  }
}
