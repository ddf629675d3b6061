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

/** What a blob of an import is; undefined for another blob. */
export function parseBlobName(name: string): { importId: string; kind: string } | undefined {
  const [, importId, kind] = /^imports\/([^/]+)\/([^/]+)\//.exec(name) ?? []
  return importId === undefined || kind === undefined ? undefined : { importId, kind }
}
