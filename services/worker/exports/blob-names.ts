import type { MultipartUpload } from '@sluice/blobs/blob-store'
import type { LeaseKey } from '@sluice/leases/lease-table'
import type { ExportRecord } from '@sluice/postgres/export-records'
import { idPattern } from '@sluice/runtime/ids'

/**
 * Prefixes of the files of exports. Earlier builds, which may still run, write to `exports/` and remove everything else
 * that they find there.
 */
export const exportPrefixes = ['export-files/', 'exports/'] as const

/**
 * The name of the blob for a file that is begun under this lease. Each attempt has its own name, so that a late removal
 * of an earlier attempt's file does not remove the new one.
 */
export function exportBlobName({ id, lease }: LeaseKey): string {
  return `${exportPrefixes[0]}${id}.${lease}`
}

const exportBlob = new RegExp(`^(?:exports|export-files)/(${idPattern('exp')})(?:\\.\\d+)?$`)

/** The export whose file a blob is; undefined for another blob, which may be somebody else's. */
export function parseExportBlobName(name: string): string | undefined {
  return exportBlob.exec(name)?.[1]
}

/** The upload of the file that an export has begun; undefined when none is under way. */
export function uploadOf({ object, uploadId }: Pick<ExportRecord, 'object' | 'uploadId'>): MultipartUpload | undefined {
  return object === null || uploadId === null ? undefined : { name: object, uploadId }
}
