import type { importStore } from '@sluice/postgres/imports'
import { type ImportRecord, type ImportStore } from '@sluice/postgres/imports'
import { newId } from '@sluice/runtime/ids'

/** Records of each segment of `addImport`. */
export const segmentRecords = 100

/** Stores an import of `segments` segments that workers may take from `at` on. */
export async function addImport(
  store: ImportStore,
  { site = newId('site'), segments = 1 }: { site?: string; segments?: number },
  at: number,
): Promise<ImportRecord> {
  const importId = newId('imp')
  await store.create({ importId, siteId: site, environment: 'prod', type: 'events', keyId: 'key_1' }, at)
  const record = await store.markQueued(
    importId,
    {
      format: 'csv',
      csv: { header: ['event_id'], delimiter: ',' },
      sha256: 'ab'.repeat(32),
      segments: Array.from({ length: segments }, (_, n) => ({
        n,
        object: `${importId}/${n}`,
        firstRecord: n * segmentRecords,
        firstLine: n * segmentRecords + 2,
        records: segmentRecords,
      })),
    },
    at,
  )
  if (!record) throw new Error('the import was not uploading')
  return record
}

/** The part of an import's work that is the same for every test: its first segment that is not done. */
export async function nextSegment(
  store: ReturnType<typeof importStore>,
  importId: string,
): Promise<number | undefined> {
  const segments = await store.segments(importId)
  return segments.find(({ processed, records }) => processed < records)?.n
}

/** A segment that is done, as `recordSegment` takes it. */
export const segmentDone = { processed: segmentRecords, failed: 1, errorsObject: null, positions: { 3: '1841' } }
