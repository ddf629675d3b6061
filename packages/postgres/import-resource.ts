import type { ImportResource } from '@sluice/contracts/imports'
import type { ImportRecord } from './import-record.ts'

/**
 * Converts a stored import to its form in responses; times are in Unix ms. It is here, because the webhook of a finished
 * import sends it as well.
 */
export function toImportResource(record: ImportRecord): ImportResource {
  return {
    job_id: record.importId,
    site_id: record.siteId,
    type: record.type,
    status: record.status,
    total_records: record.totalRecords,
    processed_records: record.processedRecords,
    failed_records: record.failedRecords,
    created_at: record.createdAt,
    finished_at: record.finishedAt,
    error: record.error,
  }
}
