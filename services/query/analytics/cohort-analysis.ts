import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { analyseCohort } from '@sluice/event-store/cohorts/analyse-cohort'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { requireFound } from '@sluice/runtime/errors'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, cohortTooLarge, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { toCompletableRow } from './retention-rows.ts'

/**
 * GET /api/v1/analytics/cohorts (docs/http-interface.md#cohort-analysis): the users of a cohort that return, week by
 * week from their entry.
 */
export function cohortAnalysisRoute({
  eventReader,
  sites,
  cohorts,
  readCompleteUntil,
}: {
  eventReader: AnalysisReader
  sites: ReadableSites
  cohorts: Pick<CohortStore, 'find'>
  readCompleteUntil: ReadCompleteUntil
}): Route {
  return handleAnalysis(operations.cohortAnalysis, eventReader, async (request, signal) => {
    const { query, credential, receivedAt, log } = request
    const { site_id: siteId, cohort_id: cohortId, weeks, environment = credential.environment } = query
    log({ site_id: siteId, cohort_id: cohortId, weeks })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const cohort = requireFound(await cohorts.find(cohortId, [siteId]), 'Cohort')

    const { name, criteria } = cohort.settings
    const completeUntilMs = readCompleteUntil(-Infinity)
    const spec = { siteId, environment, now: receivedAt, criteria, weeks }
    const numbers = await runAnalysis(eventReader, { credential, signal }, (runner) => analyseCohort(spec, runner), {
      kind: 'cohort',
      tooLarge: { resources: cohortTooLarge('cohort_id') },
      conditions: { criteria },
    })
    return {
      cohort_id: cohortId,
      site_id: siteId,
      cohort_name: name,
      size: numbers.size,
      retention_by_week: numbers.weeks.map(toCompletableRow),
      complete_until: completeUntilMs,
    }
  })
}
