import type { Reconciled } from '@sluice/postgres/after-restore'

/** What an operator does about records that a restored or an empty ClickHouse lacks, one sentence each. */
export function reconciledLines({
  forgotten,
  repeatedImports,
  lostImports,
}: Pick<Reconciled, 'forgotten' | 'repeatedImports' | 'lostImports'>): string[] {
  return [
    ...forgotten.map(
      ({ erasureId, siteId }) => `The erasure ${erasureId} of the site ${siteId} can't be repeated: request it again.`,
    ),
    ...repeatedImports.map((importId) => `The import ${importId} starts again.`),
    ...lostImports.map((importId) => `ClickHouse may lack records of the import ${importId}: upload its file again.`),
  ]
}
