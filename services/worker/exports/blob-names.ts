/** All files of exports. */
export const exportsPrefix = 'exports/'

/** The name of the blob that holds an export's file. */
export function exportBlobName(exportId: string): string {
  return `${exportsPrefix}${exportId}`
}

/** The export whose file a blob is; undefined for another blob. */
export function parseExportBlobName(name: string): string | undefined {
  return /^exports\/([^/]+)$/.exec(name)?.[1]
}
