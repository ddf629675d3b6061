import { type ImportResource, type ImportType, importTypes } from '@sluice/contracts/imports'
import { grants, type Scope } from '@sluice/contracts/scopes'
import type { ImportRecord } from '@sluice/postgres/imports'

/** The types of imports that a key may make and see: those of users belong to administrators. */
export function permittedTypes(held: readonly Scope[]): readonly ImportType[] {
  return importTypes.filter((type) => type !== 'users' || grants(held, 'admin'))
}

/** Converts a stored import to its form in responses; times are in Unix ms. */
export function toImportResource(record: ImportRecord): ImportResource {
  return {
    job_id: record.importId,
    site_id: record.siteId,
    type: record.type,
    status: record.status,
    total_records: record.totalRecords,
    processed_records: record.processedRecords,
    failed_records: record.failedRecords,
    created_at: record.createdAt.getTime(),
    finished_at: record.finishedAt?.getTime() ?? null,
    error: record.error,
  }
}
