import type { BlobStore } from '@sluice/blobs/blob-store'
import { segmentName } from '@sluice/imports/blob-names'
import { writeSegments } from '@sluice/imports/segments'
import type { ImportRecord } from '@sluice/postgres/import-record'
import type { ImportStore, NewImport } from '@sluice/postgres/imports'
import { newId } from '@sluice/runtime/ids'

/**
 * Stores a file as an upload does, in segments of at most `segmentRecords` records, and hands it to the workers at
 * `at`.
 */
export async function uploadFile(
  { imports, blobs }: { imports: ImportStore; blobs: BlobStore },
  file: Iterable<string>,
  {
    segmentRecords,
    at = Date.now(),
    ...parts
  }: Partial<Pick<NewImport, 'siteId' | 'environment' | 'type'>> & { segmentRecords?: number; at?: number } = {},
): Promise<ImportRecord> {
  const importId = newId('imp')
  async function* bytes(): AsyncGenerator<Buffer> {
    for (const text of file) yield await Promise.resolve(Buffer.from(text))
  }
  const { sha256, segments } = await writeSegments(
    bytes(),
    async (n, content) => {
      await blobs.write(segmentName(importId, n), content)
    },
    segmentRecords === undefined ? {} : { segmentRecordsMax: segmentRecords },
  )
  // A key has few uploads at a time, and tests add many imports at once.
  await imports.uploads.begin({ importId, keyId: newId('key') }, at)
  return imports.create(
    {
      importId,
      siteId: newId('site'),
      environment: 'prod',
      type: 'events',
      keyId: 'key_1',
      sha256,
      createdAt: at,
      segments: segments.map((segment) => ({ ...segment, object: segmentName(importId, segment.n) })),
      ...parts,
    },
    at,
  )
}
