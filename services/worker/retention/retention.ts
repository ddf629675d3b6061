import { runLeases } from '@sluice/leases/run-leases'
import { erasureStore } from '@sluice/postgres/erasures'
import { recurringJobLeases } from '@sluice/postgres/recurring-jobs'
import { siteStore } from '@sluice/postgres/sites'
import type { JobKind } from '../job-kind.ts'
import { retentionUnit } from './retention-unit.ts'

/** The deletion of what sites keep no longer, once for all workers. */
export const retention: JobKind = ({ postgres, eraser }, context) =>
  runLeases({
    kind: 'retention',
    table: recurringJobLeases(postgres),
    work: retentionUnit({ sites: siteStore(postgres), erasures: erasureStore(postgres), eraser, clock: context.clock }),
    concurrency: 1,
    ...context,
  })
