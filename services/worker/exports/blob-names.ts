import type { LeaseKey } from '@sluice/leases/lease-table'
import { idPattern } from '@sluice/runtime/ids'

/**
 * Where files of exports are. Those in `exports/` were written by builds that remove whatever else they find there, and
 * that may still run.
 */
export const exportPrefixes = ['export-files/', 'exports/'] as const

/**
 * The name of the blob for a file that is begun under this lease. Each attempt has a name of its own: what removes the
 * file of an earlier one, however late, leaves the new one alone.
 */
export function exportBlobName({ id, lease }: LeaseKey): string {
  return `${exportPrefixes[0]}${id}.${lease}`
}

const exportBlob = new RegExp(`^(?:exports|export-files)/(${idPattern('exp')})(?:\\.\\d+)?$`)

/** The export whose file a blob is; undefined for another blob, which may be somebody else's. */
export function parseExportBlobName(name: string): string | undefined {
  return exportBlob.exec(name)?.[1]
}
