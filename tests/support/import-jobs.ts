import { sql } from 'kysely'
import { segmentName } from '@sluice/imports/blob-names'
import type { ImportRecord } from '@sluice/postgres/import-record'
import type { ImportStore, NewImport } from '@sluice/postgres/imports'
import type { Postgres } from '@sluice/postgres/open'
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
  // A key has few uploads at a time, and tests add many imports at once.
  await store.uploads.begin({ importId, keyId: newId('key') }, at)
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

/** Stores `count` queued imports of a key, without segments, at once: `waiting_1` and so on. */
export async function addWaitingImports({ db }: Pick<Postgres, 'db'>, keyId: string, count: number): Promise<void> {
  await sql`
    INSERT INTO imports (import_id, site_id, environment, type, status, sha256, key_id, created_at, accepted_at, due_at)
    SELECT 'waiting_' || n, 'shop', 'prod', 'events', 'queued', 'ff', ${keyId}, now(), now(), now()
    FROM generate_series(1, ${count}::int) AS n`.execute(db)
}

/** The part of an import's work that is the same for every test: its first segment that is not done. */
export async function nextSegment(store: ImportStore, importId: string): Promise<number | undefined> {
  return (await store.nextSegment(importId))?.n
}

/** A segment that is done, as `recordSegment` takes it. */
export const segmentDone = {
  processed: segmentRecords,
  failed: 1,
  errorsObject: null,
  publishedEndOffsets: { 3: '1841' },
}
