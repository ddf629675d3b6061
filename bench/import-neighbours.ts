import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { importStore } from '@sluice/postgres/imports'
import { openPostgres } from '@sluice/postgres/open'
import { waitUntil } from '@sluice/runtime/wait-until'
import { uploadFile } from '../tests/support/uploaded-import.ts'
import { csvOf } from './imports.ts'
import { seenDelays } from './seen-delays.ts'
import { startSluice } from './sluice-rig.ts'

/** Rows of the import; it must take longer than the measurement beside it. */
const rows = Number(process.env.BENCH_EVENTS ?? 10_000_000)
/** Duration of each of the two measurements. */
const seconds = Number(process.env.BENCH_SECONDS ?? 60)

/** S5 of other sites by itself, and while a worker imports a file of 10 M rows that are scattered over a year. */
export async function importNeighbours(): Promise<object> {
  const rig = await startSluice()
  const postgres = openPostgres(rig.postgresUrl)
  try {
    const measure = seenDelays(rig)
    const imports = importStore(postgres)
    const blobs = await openBlobStore(rig.blobsUrl)
    // The import is due only when the measurement without it has ended and a worker runs.
    const { importId } = await uploadFile({ imports, blobs }, csvOf(rows))
    const alone = await measure('alone', seconds)
    const worker = await rig.startWorker()
    const processed = async (): Promise<number> => (await imports.find(importId, null))?.processedRecords ?? 0
    await waitUntil(async () => (await processed()) > 0, 'the import has begun', 60_000)
    const before = await processed()
    const beside = await measure('beside', seconds)
    const imported = (await processed()) - before
    await worker.stop()
    return {
      bar: { seen: '≤ 1.5 times' },
      rows,
      alone,
      beside_import: beside,
      imported_rows_per_second: Math.round(imported / seconds),
    }
  } finally {
    await postgres.close()
    await rig.stop()
  }
}
