import { blockEncoder } from '@sluice/event-log/encode-blocks'
import type { EventLog } from '@sluice/event-log/log'
import { encodeImportedEvent } from '@sluice/imports/encode-imported-event'
import { recordParser } from '@sluice/imports/parse-record'
import { timeoutMs } from '../support/writer.ts'

/** A stored event as an export has it, with the fields that the tests compare. */
export interface ExportedRow {
  site_id: string
  event_id: string
  event_type: string
  timestamp: number
}

/** Publishes the events of a site as a worker does that imports a file with them. */
export async function importRows(log: EventLog, rows: readonly ExportedRow[]): Promise<void> {
  const parse = recordParser({ format: 'ndjson' }, 'events')
  const blocks = blockEncoder({ partitions: await log.partitions(), defaultPartition: 0 })
  for (const [index, { timestamp, ...row }] of rows.entries()) {
    const bytes = Buffer.from(JSON.stringify({ ...row, timestamp_ms: timestamp }))
    const job = { siteId: row.site_id, environment: 'prod', receivedAt: Date.now(), sha256: 'a'.repeat(64) } as const
    const { value, error } = encodeImportedEvent({ number: index + 1, line: index + 1, bytes }, parse, job)
    if (error) throw new Error(JSON.stringify(error))
    blocks.add([value])
  }
  await log.publish(blocks.finish(), { timeoutMs })
}
