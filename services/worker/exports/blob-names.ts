import type { LeaseKey } from '@sluice/leases/lease-table'

/** All files of exports. */
export const exportsPrefix = 'exports/'

/**
 * The name of the blob for a file that is begun under this lease. Each attempt has a name of its own: what removes the file of
 * an earlier one, however late, leaves the new one alone.
 */
export function exportBlobName({ id, lease }: LeaseKey): string {
  return `${exportsPrefix}${id}.${lease}`
}

/** The export whose file a blob is; undefined for another blob. */
export function parseExportBlobName(name: string): string | undefined {
  return /^exports\/([^/.]+)(?:\.\d+)?$/.exec(name)?.[1]
}
