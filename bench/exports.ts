import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openClickHouse, parseClickHouseUrl } from '@sluice/event-store/clickhouse/client'
import { eventExportRows } from '@sluice/event-store/exports/events'
import { formatStatement } from '@sluice/event-store/exports/row-formats'
import type { ExportScope } from '@sluice/event-store/exports/scope'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { exportStore } from '@sluice/postgres/exports'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addExport } from '../tests/support/export-jobs.ts'
import { startJobs } from './jobs-rig.ts'
import { rounded } from './report.ts'
import { producerRows } from './writer-rows.ts'

/** BENCH_EVENTS=200000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
const site = 'bench'
const batchRows = 50_000
const deadlineMs = 600_000

/**
 * S12: an export of a site's events as CSV, from its creation to `completed`, compared with curl, which writes the
 * answer to the same SELECT to a file. Each goes first in one of two rounds.
 */
export async function exportEvents(): Promise<object> {
  const rig = await startJobs()
  const { folder, clickHouseUrl, postgres, worker } = rig
  try {
    await fill(clickHouseUrl)
    const exports = exportStore(postgres)
    const rssBefore = await worker.rssPeakMib()

    const sluice = async (): Promise<number> => {
      const startedAt = performance.now()
      const { exportId } = await addExport(exports, { site }, Date.now())
      const isCompleted = async (): Promise<boolean> => (await exports.find(exportId, null))?.status === 'completed'
      await waitUntil(isCompleted, 'the export is completed', deadlineMs)
      return (performance.now() - startedAt) / 1000
    }
    const curl = async (): Promise<number> => {
      const startedAt = performance.now()
      await select(clickHouseUrl, join(folder, 'file.csv'))
      return (performance.now() - startedAt) / 1000
    }
    const rounds: { sluice: number; curl: number }[] = []
    for (const first of [sluice, curl]) {
      const seconds = { [first.name]: await first() }
      const second = first === sluice ? curl : sluice
      seconds[second.name] = await second()
      rounds.push({ sluice: rounded(seconds.sluice ?? NaN), curl: rounded(seconds.curl ?? NaN) })
    }
    const total = (name: 'sluice' | 'curl'): number => rounds.reduce((sum, round) => sum + round[name], 0)
    return {
      bar: 0.7,
      ratio: rounded(total('curl') / total('sluice')),
      events,
      mib: Math.round((await stat(join(folder, 'file.csv'))).size / 2 ** 20),
      seconds: rounds,
      worker_rss_mib: { before: rssBefore, peak: await worker.rssPeakMib() },
    }
  } finally {
    await rig.stop()
  }
}

/** Stores events in the shapes of real producers, all of one site. */
async function fill(url: string): Promise<void> {
  const inserter = openEventInserter(url)
  for (let from = 0; from < events; from += batchRows) {
    const rows = producerRows(from, Math.min(batchRows, events - from)).toString()
    const payloads = [Buffer.from(rows.replaceAll(/"site_id":"[^"]*"/g, `"site_id":"${site}"`))]
    await inserter.insert(
      { payloads, hasUndated: false },
      { queryId: `fill-${from}`, shouldReplaceRunning: false, timeoutMs: 60_000 },
    )
  }
  await inserter.close()
  const clickHouse = openClickHouse(url)
  await clickHouse.command('OPTIMIZE TABLE events')
  await clickHouse.close()
}

async function select(url: string, file: string): Promise<void> {
  const { origin, username, password, database } = parseClickHouseUrl(url)
  const scope: ExportScope = {
    siteId: site,
    environment: 'prod',
    start: undefined,
    end: undefined,
    receivedFrom: undefined,
    receivedUntil: Date.now(),
    filter: [],
    cohort: undefined,
  }
  const rows = eventExportRows({ scope, after: undefined, until: undefined })
  const { sql, params, settings } = formatStatement(rows, { format: 'csv', isCsvSafe: true })
  const query = new URLSearchParams({ database })
  for (const [name, value] of Object.entries(params)) query.set(`param_${name}`, String(value))
  for (const [name, value] of Object.entries(settings)) query.set(name, String(value))
  const target = `${origin}/?${query.toString()}`
  const user = `${username}:${password}`
  await promisify(execFile)('curl', ['-sS', '--fail-with-body', '-u', user, '--data-binary', sql, '-o', file, target])
}
