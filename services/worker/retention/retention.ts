import { runLeases } from '@sluice/leases/run-leases'
import { choreLeases } from '@sluice/postgres/chores'
import { erasureStore } from '@sluice/postgres/erasures'
import { siteStore } from '@sluice/postgres/sites'
import type { JobKind } from '../job-kind.ts'
import { retentionUnit } from './retention-unit.ts'

/** The deletion of what sites keep no longer, once for all workers. */
export const retention: JobKind = ({ postgres, eraser }, context) =>
  runLeases({
    kind: 'retention',
    table: choreLeases(postgres),
    work: retentionUnit({ sites: siteStore(postgres), erasures: erasureStore(postgres), eraser, clock: context.clock }),
    concurrency: 1,
    ...context,
  })
