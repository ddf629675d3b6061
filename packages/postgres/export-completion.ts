import { encodeBody, queueForWebhooks } from './deliveries.ts'
import { findRecord } from './export-records.ts'
import { toExportResource } from './export-resource.ts'
import type { Db } from './tables.ts'

/** Queues `export.completed` in the transaction that completes the export, so that both are stored or neither. */
export async function queueCompletion(transaction: Db, exportId: string, now: number): Promise<void> {
  const record = await findRecord(transaction, exportId)
  const { siteId, spec } = record
  const kind = 'export.completed'
  await queueForWebhooks(transaction, {
    siteId,
    environment: spec.environment,
    kind,
    source: `export:${exportId}`,
    body: encodeBody({ event_type: kind, timestamp: now, site_id: siteId, data: toExportResource(record) }),
    now,
  })
}
