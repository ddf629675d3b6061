import { segmentName } from '@sluice/imports/blob-names'
import type { ImportRecord } from '@sluice/postgres/import-record'
import type { ImportStore, NewImport } from '@sluice/postgres/imports'
import { newId } from '@sluice/runtime/ids'

/** Records of each segment of `addImport`. */
export const segmentRecords = 100

/** Stores an import of `segments` segments that workers may take from `at` on. */
export async function addImport(
  store: ImportStore,
  {
    segments = 1,
    site = newId('site'),
    ...parts
  }: Partial<Omit<NewImport, 'segments'>> & { site?: string; segments?: number },
  at: number,
): Promise<ImportRecord> {
  const importId = newId('imp')
  await store.uploads.begin({ importId, keyId: 'key_1' }, Infinity, at)
  return store.create(
    {
      importId,
      siteId: site,
      environment: 'prod',
      type: 'events',
      keyId: 'key_1',
      sha256: 'ab'.repeat(32),
      createdAt: at,
      segments: Array.from({ length: segments }, (_, n) => ({
        n,
        object: segmentName(importId, n),
        firstRecord: n * segmentRecords + 1,
        firstLine: n * segmentRecords + 2,
        records: segmentRecords,
      })),
      ...parts,
    },
    at,
  )
}

/** The part of an import's work that is the same for every test: its first segment that is not done. */
export async function nextSegment(store: ImportStore, importId: string): Promise<number | undefined> {
  const segments = await store.segments(importId)
  return segments.find(({ processed, records }) => processed < records)?.n
}

/** A segment that is done, as `recordSegment` takes it. */
export const segmentDone = { processed: segmentRecords, failed: 1, errorsObject: null, positions: { 3: '1841' } }
