import { idPattern } from '@sluice/runtime/ids'

/** All blobs of imports. */
export const importsPrefix = 'imports/'

/** Segment `n` of an import. */
export function segmentName(importId: string, n: number): string {
  return `${importsPrefix}${importId}/segments/${n}`
}

/** The errors of segment `n` of an import. */
export function errorsName(importId: string, n: number): string {
  return `${importsPrefix}${importId}/errors/${n}`
}

const importBlob = new RegExp(`^imports/(${idPattern('imp')})/(segments|errors)/\\d+$`)

/** The import and the kind of a blob; undefined for another blob, which may be somebody else's. */
export function parseBlobName(name: string): { importId: string; kind: string } | undefined {
  const [, importId, kind] = importBlob.exec(name) ?? []
  return importId === undefined || kind === undefined ? undefined : { importId, kind }
}
