import type { SiteStore } from '@sluice/access/sites'
import type { Criteria } from '@sluice/contracts/conditions'
import type { ExportSpec } from '@sluice/contracts/exports'
import { QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { eventExportRows } from '@sluice/event-store/exports/events'
import type { ExportScope } from '@sluice/event-store/exports/scope'
import { sessionExportRows } from '@sluice/event-store/exports/sessions'
import { eventSource, type ExportSource, wholeSource } from '@sluice/event-store/exports/source'
import { statsExportRows } from '@sluice/event-store/exports/stats'
import { userExportRows } from '@sluice/event-store/exports/users'
import type { CohortStore } from '@sluice/postgres/cohorts'
import type { ExportRecord } from '@sluice/postgres/export-records'

export interface SourceDeps {
  cohorts: Pick<CohortStore, 'find'>
  sites: Pick<SiteStore, 'find'>
  /** Events of a slice, and members of a cohort that are selected once for a file; tests make them small. */
  sliceEventsMax?: number
  membersMax?: number
}

/** Why an export can't be made, for users. */
export interface ExportRefusal {
  error: string
}

/** The data that an export reads. */
export interface OpenedExport {
  source: ExportSource
  /** The criteria of its cohort; undefined: it names none. */
  cohortCriteria: Criteria | undefined
}

/** Opens what an export reads. The whole file has the cohort as it was when the file was begun. */
export async function openExport(
  deps: SourceDeps,
  job: ExportRecord,
  runner: QueryRunner,
): Promise<OpenedExport | ExportRefusal> {
  const { cohort_id: cohortId } = job.spec
  const cohortCriteria =
    cohortId === undefined
      ? undefined
      : (job.cohortCriteria ?? (await deps.cohorts.find(cohortId, [job.siteId]))?.settings.criteria)
  if (cohortId !== undefined && !cohortCriteria) return { error: 'Cohort not found' }
  const cohort = cohortCriteria && { criteria: cohortCriteria, now: job.createdAt }
  const source = await openSource(deps, job, scopeOf(job, cohort), runner)
  return 'error' in source ? source : { source, cohortCriteria }
}

async function openSource(
  { sites, sliceEventsMax, membersMax }: SourceDeps,
  job: ExportRecord,
  scope: ExportScope,
  runner: QueryRunner,
): Promise<ExportSource | ExportRefusal> {
  const { spec } = job
  switch (spec.type) {
    case 'events':
      if (spec.format === 'parquet') return wholeSource(eventExportRows({ scope, after: undefined, until: undefined }))
      return eventSource(scope, runner, {
        ...(sliceEventsMax !== undefined && { eventsMax: sliceEventsMax }),
        ...(membersMax !== undefined && { membersMax }),
      })
    case 'users':
      return wholeSource(userExportRows(scope))
    case 'cohort':
      return scope.cohort ? wholeSource(userExportRows(scope)) : { error: 'The export names no cohort' }
    case 'sessions':
      return wholeSource(sessionExportRows(scope))
    case 'stats':
      return openStats(sites, job, scope, runner)
  }
}

async function openStats(
  sites: SourceDeps['sites'],
  { siteId, spec }: ExportRecord,
  scope: ExportScope,
  runner: QueryRunner,
): Promise<ExportSource | ExportRefusal> {
  if (spec.metric === undefined) return { error: 'The export names no metric' }
  if (scope.cohort) return { error: 'Stats cannot be of a cohort' }
  const settings = (await sites.find(siteId))?.settings
  const stats = {
    metric: spec.metric,
    groupBy: spec.group_by,
    timeZone: settings?.timezone ?? 'UTC',
    targetEvent: settings?.conversion_event ?? undefined,
  }
  try {
    return wholeSource(await statsExportRows(scope, stats, runner))
  } catch (error) {
    if (!(error instanceof QueryTooLargeError)) throw error
    return { error: 'The breakdown is too large: export a shorter range, or longer buckets' }
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
    receivedFrom: receivedFrom ?? undefined,
    receivedUntil: receivedUntil ?? createdAt,
    filter,
    cohort,
  }
}
