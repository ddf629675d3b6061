import type { ExportSpec } from '@sluice/contracts/exports'
import { eventRows } from '@sluice/event-store/exports/events'
import type { ExportScope } from '@sluice/event-store/exports/scope'
import { eventSource, type ExportSource, wholeSource } from '@sluice/event-store/exports/source'
import type { QueryRunner } from '@sluice/event-store/query-runner'
import type { CohortStore } from '@sluice/postgres/cohorts'
import type { ExportRecord } from '@sluice/postgres/export-records'

export interface SourceDeps {
  cohorts: Pick<CohortStore, 'find'>
  /** Events of a slice; tests make it small. */
  sliceEventsMax?: number
}

/** Why an export can't be made, for users. */
export interface Unreadable {
  error: string
}

/** What an export reads. */
export async function openSource(
  { cohorts, sliceEventsMax }: SourceDeps,
  job: ExportRecord,
  runner: QueryRunner,
): Promise<ExportSource | Unreadable> {
  const { spec } = job
  const criteria = spec.cohort_id && (await cohorts.find(spec.cohort_id, [job.siteId]))?.settings.criteria
  if (spec.cohort_id !== undefined && !criteria) return { error: 'Cohort not found' }
  const scope = scopeOf(job, criteria ? { criteria, now: job.createdAt.getTime() } : undefined)
  switch (spec.type) {
    case 'events':
      if (spec.format === 'parquet') return wholeSource(eventRows({ scope, after: undefined, until: undefined }))
      return eventSource(scope, runner, sliceEventsMax === undefined ? {} : { eventsMax: sliceEventsMax })
    case 'users':
    case 'cohort':
    case 'sessions':
    case 'stats':
      return { error: `Exports of ${spec.type} can not be made yet` }
  }
}

function scopeOf(
  { siteId, spec, receivedFrom, receivedUntil, createdAt }: ExportRecord,
  cohort: ExportScope['cohort'],
): ExportScope {
  const { environment, start_date: start, end_date: end, filter = [] }: ExportSpec = spec
  return {
    siteId,
    environment,
    start,
    end,
    receivedFrom: receivedFrom?.getTime(),
    receivedUntil: (receivedUntil ?? createdAt).getTime(),
    filter,
    cohort,
  }
}
