import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { isUploadConflict } from '@sluice/blobs/errors'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { ExportSpec } from '@sluice/contracts/exports'
import { type ExportReader, openExportReaderAt } from '@sluice/event-store/exports/export-reader'
import { LeaseLostError, leaseMs } from '@sluice/leases/lease-table'
import type { Lease } from '@sluice/leases/run-unit'
import { type CohortStore, cohortStore } from '@sluice/postgres/cohorts'
import type { ExportRecord } from '@sluice/postgres/export-records'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
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
  /**
   * Does all work that is due, unit by unit, and returns the number of units. A unit that fails is treated as killed.
   */
  work(parts?: Partial<ExportUnitDeps>): Promise<number>
  /** Takes the job that is due under a new lease, 30 s later than before, so that the previous lease has ended. */
  take(): Promise<{ job: ExportRecord; lease: Lease }>
  /** The bytes of an export's file. */
  file(exportId: string): Promise<Buffer>
  drop(): Promise<void>
}

/** Ends a unit as the death of its worker does. */
export class Killed extends Error {}

/** After all events of the tests. */
export const exportedAt = noon + 30 * 86_400_000
/** After this time, a unit no longer waits for the writers, but checks whether they are done. */
const waitedMs = 60_000
/** More units than any test needs. If an export starts again for ever, its test fails. */
const unitsMax = 200

export async function createExportRig(openBlobs?: () => Promise<BlobStore>): Promise<ExportRig> {
  const database = await openStatsDatabase()
  const postgres = await openTestPostgres()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-exports-'))
  const blobs = await (openBlobs?.() ?? openBlobStore(`file:${folder}`))
  const reader = openExportReaderAt(database.owner.address)
  const exports = exportStore(postgres)
  const cohorts = cohortStore(postgres)
  const metrics = exportMetrics(createMetrics())
  let now = exportedAt + waitedMs
  const deps: ExportUnitDeps = {
    exports,
    cohorts,
    sites: siteStore(postgres),
    blobs,
    reader,
    metrics,
    storedBlocks: { wait: () => Promise.resolve(true) },
    watermarks: { readCompleteTimes: () => Promise.resolve({ live: 0, all: 0 }) },
    clock: { now: () => now },
    // A piece each.
    unitMs: 0,
  }
  const unit: ExportRig['unit'] = (parts = {}) => exportUnit({ ...deps, ...parts })
  const takeOne = async () => {
    const [leased] = await exports.leases.take(now, 1)
    if (!leased) return undefined
    const { id, lease, job } = leased
    return { job, lease: { id, lease, signal: new AbortController().signal } }
  }
  const work: ExportRig['work'] = async (parts = {}) => {
    for (let units = 0; ; units++) {
      if (units === unitsMax) throw new Error(`the work goes on after ${unitsMax} units`)
      const taken = await takeOne()
      if (!taken) return units
      try {
        const { next } = await unit(parts)(taken.job, taken.lease)
        await exports.leases.release(taken.lease, next === 'done' ? null : now, { isProgress: true })
      } catch (error) {
        const isExpected = error instanceof Killed || error instanceof LeaseLostError
        if (!isExpected && !isUploadConflict(error)) throw error
        now += leaseMs
      }
    }
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
    take: async () => {
      now += leaseMs
      const taken = await takeOne()
      if (!taken) throw new Error('nothing is due')
      return taken
    },
    exportAll: async (site, spec, parts) => {
      const { exportId } = await addExport(exports, { site, spec }, exportedAt)
      await work(parts)
      const record = await exports.find(exportId, null)
      if (!record) throw new Error('the export has vanished')
      return record
    },
    file: async (exportId) => {
      const chunks: Buffer[] = []
      const object = (await exports.find(exportId, null))?.object ?? ''
      for await (const chunk of await blobs.read(object)) chunks.push(chunk as Buffer)
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
