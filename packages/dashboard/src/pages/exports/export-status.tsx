import type { ExportResource, ExportStatus as Name } from '@sluice/contracts/exports'
import { serverNow } from '../../api/client.ts'
import { Status, type StatusProps } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const kinds: Record<Name, StatusProps['kind']> = {
  queued: 'busy',
  processing: 'busy',
  completed: 'good',
  failed: 'danger',
  cancelled: 'neutral',
  expired: 'neutral',
}

/** A schedule makes its first run within this time, unless it begins later. */
const firstRunMs = 60_000

/** Whether an export goes on by itself now; a schedule that waits for its next run does not. */
export const isUnderWay = ({ status, scheduled, created_at: createdAt }: ExportResource): boolean =>
  status === 'processing' || (status === 'queued' && (scheduled === null || serverNow() - createdAt < firstRunMs))

/** Where an export stands; a schedule that is paused, or has made no run yet, says so. */
export function ExportStatus({ exportRecord }: { exportRecord: Pick<ExportResource, 'status' | 'scheduled'> }) {
  if (exportRecord.scheduled?.paused === true) return <Status kind="neutral">{texts.statuses.paused}</Status>
  if (exportRecord.scheduled !== null && exportRecord.status === 'queued')
    return <Status kind="busy">{texts.statuses.scheduled}</Status>
  return <Status kind={kinds[exportRecord.status]}>{texts.statuses[exportRecord.status]}</Status>
}
