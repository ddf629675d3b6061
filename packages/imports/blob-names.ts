import { idPattern } from '@sluice/runtime/ids'

/** The prefix of all blobs of imports. */
export const importsPrefix = 'imports/'

/** The name of the blob for segment `n` of an import. */
export function segmentName(importId: string, n: number): string {
  return `${importsPrefix}${importId}/segments/${n}`
}

/** The name of the blob for the errors of segment `n` of an import. */
export function errorsName(importId: string, n: number): string {
  return `${importsPrefix}${importId}/errors/${n}`
}

const importBlob = new RegExp(`^imports/(${idPattern('imp')})/(segments|errors)/\\d+$`)

/** The import and the kind of a blob; undefined for other blobs, which may belong to other programs. */
export function parseBlobName(name: string): { importId: string; kind: string } | undefined {
  const [, importId, kind] = importBlob.exec(name) ?? []
  return importId === undefined || kind === undefined ? undefined : { importId, kind }
}
