import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { ExportSpec } from '@sluice/contracts/exports'
import { type ExportReader, openExportReaderAt } from '@sluice/event-store/exports/export-reader'
import { type CohortStore, cohortStore } from '@sluice/postgres/cohorts'
import type { ExportRecord } from '@sluice/postgres/export-records'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { createMetrics } from '@sluice/runtime/metrics'
import { exportUnit, type ExportUnitDeps } from '@sluice/worker/exports/export-unit'
import { exportMetrics } from '@sluice/worker/exports/metrics'
import { addExport } from './export-jobs.ts'
import { noon, openStatsDatabase, type StatsDatabase } from './stats-database.ts'
import { openTestPostgres, type TestPostgres } from './test-postgres.ts'

/** The engines of exports, with the unit of the worker on them. Times are those of the caller. */
export interface ExportRig {
  database: StatsDatabase
  postgres: TestPostgres
  exports: ExportStore
  cohorts: CohortStore
  blobs: BlobStore
  reader: ExportReader
  unit: (parts?: Partial<ExportUnitDeps>) => ReturnType<typeof exportUnit>
  /** Stores an export that was created at `exportedAt`, and does all its work. */
  exportAll(siteId: string, spec: Partial<ExportSpec>, parts?: Partial<ExportUnitDeps>): Promise<ExportRecord>
  /** Does units of the work that is due, at most so many, and returns their number. */
  work(units?: number, parts?: Partial<ExportUnitDeps>): Promise<number>
  /** The bytes of an export's file. */
  file(exportId: string): Promise<Buffer>
  drop(): Promise<void>
}

/** After all events of the tests. */
export const exportedAt = noon + 30 * 86_400_000
/** So much later nothing is waited for any more. */
const workedAt = exportedAt + 60_000

export async function createExportRig(openBlobs?: () => Promise<BlobStore>): Promise<ExportRig> {
  const database = await openStatsDatabase()
  const postgres = await openTestPostgres()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-exports-'))
  const blobs = await (openBlobs?.() ?? openBlobStore(`file:${folder}`))
  const reader = openExportReaderAt(database.owner.address)
  const exports = exportStore(postgres)
  const cohorts = cohortStore(postgres)
  const metrics = exportMetrics(createMetrics())
  const deps: ExportUnitDeps = {
    exports,
    cohorts,
    blobs,
    reader,
    metrics,
    watermarks: { completeUntil: () => Promise.resolve({ live: 0, all: 0 }) },
    clock: { now: () => workedAt },
  }
  const unit: ExportRig['unit'] = (parts = {}) => exportUnit({ ...deps, ...parts })
  const work: ExportRig['work'] = async (units = Infinity, parts = {}) => {
    for (let done = 0; done < units; done++) {
      const [leased] = await exports.leases.take(workedAt, 1)
      if (!leased) return done
      const lease = { id: leased.id, lease: leased.lease, signal: new AbortController().signal }
      const { next } = await unit(parts)(leased.job, lease)
      await exports.leases.release(lease, next === 'done' ? null : workedAt, { isProgress: true })
    }
    return units
  }
  return {
    database,
    postgres,
    exports,
    cohorts,
    blobs,
    reader,
    unit,
    work,
    exportAll: async (site, spec, parts) => {
      const { exportId } = await addExport(exports, { site, spec }, exportedAt)
      await work(Infinity, parts)
      const record = await exports.find(exportId, null)
      if (!record) throw new Error('the export has vanished')
      return record
    },
    file: async (exportId) => {
      const chunks: Buffer[] = []
      for await (const chunk of await blobs.read(`exports/${exportId}`)) chunks.push(chunk as Buffer)
      return Buffer.concat(chunks)
    },
    drop: async () => {
      await reader.close()
      await blobs.close()
      await postgres.drop()
      await database.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
