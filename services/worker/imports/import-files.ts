import { type BlobStore, probeName } from '@sluice/blobs/blob-store'
import { importLimits } from '@sluice/contracts/imports'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { importsPrefix, parseBlobName } from '@sluice/imports/blob-names'
import type { ImportRecord } from '@sluice/postgres/import-record'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { type Clock, requireComparedClock } from '@sluice/runtime/clock'
import { poller } from '@sluice/runtime/poller'
import type { WorkerTask } from '../worker-task.ts'

const intervalMs = hourMs
/** An upload writes a blob at least every few minutes. If it has written none for this long, it is not under way. */
const orphanMs = dayMs
/** From then on, the query service answers 410. */
const errorRetentionMs = importLimits.errorRetentionDays * dayMs

export interface ImportFilesDeps {
  blobs: Pick<BlobStore, 'list' | 'remove' | 'listMultipartUploads' | 'abortMultipartUpload'>
  imports: Pick<ImportStore, 'find'>
  clock: Pick<Clock, 'now' | 'isCompared'>
}

/** The files of one import. */
interface Files {
  segments: string[]
  errors: string[]
  /** Unix ms at which the newest was written. */
  newestAt: number
}

/**
 * Removes the files that nobody needs: the segments of ended imports that workers or queries have left; errors 30 days
 * after the import has ended; and, a day after their last write, files of uploads that never became an import,
 * incomplete uploads of writers that died, and leftovers of interrupted store checks. Any number of processes may do so
 * at once. Throws the errors of `requireComparedClock`, and then removes nothing.
 */
export async function removeUnneededImportFiles({ blobs, imports, clock }: ImportFilesDeps): Promise<void> {
  requireComparedClock(clock)
  const now = clock.now()
  for (const [importId, files] of await listFiles(blobs)) {
    const names = unneededNames(files, await imports.find(importId, null), now)
    if (names.length > 0) await blobs.remove(names)
  }
  for await (const { startedAt, ...upload } of blobs.listMultipartUploads()) {
    // Uploads of exports may take as long as they need.
    const isOurs = parseBlobName(upload.name) !== undefined || upload.name === probeName
    if (isOurs && startedAt < now - orphanMs) await blobs.abortMultipartUpload(upload)
  }
}

async function listFiles(blobs: Pick<BlobStore, 'list'>): Promise<Map<string, Files>> {
  const found = new Map<string, Files>()
  for await (const { name, modifiedAt } of blobs.list(importsPrefix)) {
    const parsed = parseBlobName(name)
    if (parsed === undefined) continue
    const { importId, kind } = parsed
    const files = found.get(importId) ?? { segments: [], errors: [], newestAt: 0 }
    found.set(importId, files)
    files[kind === 'errors' ? 'errors' : 'segments'].push(name)
    files.newestAt = Math.max(files.newestAt, modifiedAt)
  }
  return found
}

function unneededNames({ segments, errors, newestAt }: Files, record: ImportRecord | undefined, now: number): string[] {
  if (record === undefined) return newestAt < now - orphanMs ? [...segments, ...errors] : []
  if (record.finishedAt === null) return []
  return record.finishedAt < now - errorRetentionMs ? [...segments, ...errors] : segments
}

/** Looks every hour for files of imports that are no longer needed. */
export const importFiles: WorkerTask = ({ blobs, postgres }, { clock, logger }) =>
  poller({
    name: 'files of imports',
    intervalMs,
    poll: () => removeUnneededImportFiles({ blobs, imports: importStore(postgres), clock }),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'removal of unneeded import files failed, retrying')
    },
  })
