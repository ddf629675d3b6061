import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { type EventEraser, openEventEraserAt } from '@sluice/event-store/erasures/event-eraser'
import { openExportReaderAt } from '@sluice/event-store/exports/export-reader'
import { openOutbound } from '@sluice/outbound/open-outbound'
import type { ImportRecord } from '@sluice/postgres/import-record'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { supervise } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { buildWorker, type WorkerOptions } from '@sluice/worker/build'
import { buildWriter } from '@sluice/writer/build'
import { capturedLogger } from './captured-logger.ts'
import { exactClock } from './clock.ts'
import { testSecretsKey } from './secrets-key.ts'
import { openTestPostgres, type TestPostgres } from './test-postgres.ts'
import { createTestStores, type TestStores } from './writer.ts'

/** The engines of imports, with a real writer and a real worker that run when a test starts them. */
export interface ImportRig extends TestStores {
  postgres: TestPostgres
  imports: ImportStore
  blobs: BlobStore
  eraser: EventEraser
  /** Resolve to the functions that stop them. */
  startWriter(): Promise<() => Promise<void>>
  startWorker(metrics?: Metrics, options?: WorkerOptions): Promise<() => Promise<void>>
  /** Waits until the import has ended. */
  ended(importId: string): Promise<ImportRecord>
  /** Names of all blobs. */
  blobNames(): Promise<string[]>
}

export async function createImportRig(logUrl?: string): Promise<ImportRig> {
  const stores = await createTestStores(logUrl)
  const postgres = await openTestPostgres()
  const imports = importStore(postgres)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-blobs-'))
  const blobs = await openBlobStore(`file:${folder}`)
  const exportReader = openExportReaderAt(stores.clickHouse.address)
  const eventReader = queryReader(stores.clickHouse)
  const eraser = openEventEraserAt(stores.clickHouse.address)
  const engines = {
    ...stores,
    exportReader,
    eventReader,
    postgres,
    blobs,
    eraser,
    secrets: createSecretCipher(testSecretsKey),
    outbound: openOutbound({ allowedNetworks: ['127.0.0.0/8'] }),
  }
  const run = async (build: typeof buildWorker | typeof buildWriter, metrics: Metrics, options?: WorkerOptions) => {
    const { logger } = capturedLogger()
    const { components, onStopping } = build(engines, { logger, metrics, clock: exactClock }, options)
    // The rig closes the inserter, which a stopped writer would close.
    const supervisor = supervise(
      components.filter(({ name }) => name !== 'event inserter'),
      logger,
    )
    await supervisor.start()
    return async () => {
      onStopping?.()
      await supervisor.stop()
    }
  }
  return {
    ...engines,
    imports,
    startWriter: () => run(buildWriter, createMetrics()),
    startWorker: (metrics = createMetrics(), options = { deleteEveryMs: 0 }) => run(buildWorker, metrics, options),
    ended: async (importId) => {
      let record: ImportRecord | undefined
      await waitUntil(async () => {
        record = await imports.find(importId, null)
        return record !== undefined && record.finishedAt !== null
      }, `${importId} has ended`)
      if (record === undefined) throw new Error('there is no such import')
      return record
    },
    blobNames: async () => {
      const names: string[] = []
      for await (const { name } of blobs.list('')) names.push(name)
      return names.sort()
    },
    drop: async () => {
      await exportReader.close()
      await blobs.close()
      await eraser.close()
      await stores.drop()
      await postgres.drop()
      await rm(folder, { recursive: true })
    },
  }
}
