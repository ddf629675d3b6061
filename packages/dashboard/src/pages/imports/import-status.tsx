import type { ImportResource, ImportStatus as Name } from '@sluice/contracts/imports'
import { Status, type StatusProps } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const kinds: Record<Name, StatusProps['kind']> = {
  uploading: 'busy',
  queued: 'busy',
  processing: 'busy',
  completed: 'good',
  failed: 'danger',
  cancelled: 'neutral',
}

/** Whether an import goes on by itself. */
export const isUnderWay = ({ status }: Pick<ImportResource, 'status'>): boolean => kinds[status] === 'busy'

/** Where an import stands. One that is completed although records failed warns. */
export function ImportStatus({ importRecord }: { importRecord: ImportResource }) {
  const hasFailed = importRecord.status === 'completed' && importRecord.failed_records > 0
  return <Status kind={hasFailed ? 'warn' : kinds[importRecord.status]}>{texts.statuses[importRecord.status]}</Status>
}
