import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { measureCohort } from '@sluice/event-store/cohorts/measure-cohort'
import type { Route } from '@sluice/http/route'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, cohortTooLarge, handleAnalysis, runAnalysis } from '../run-analysis.ts'

/**
 * POST /api/v1/cohorts/preview: the number of users that criteria describe now, before they are saved
 * (docs/http-interface.md#cohort-preview).
 */
export function previewCohortRoute({
  eventReader,
  sites,
  readCompleteUntil,
}: {
  eventReader: AnalysisReader
  sites: ReadableSites
  readCompleteUntil: ReadCompleteUntil
}): Route {
  return handleAnalysis(operations.previewCohort, eventReader, async (request, signal) => {
    const { body, credential, receivedAt, log } = request
    const { site_id: siteId, criteria, environment = credential.environment } = body
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)

    const completeUntilMs = readCompleteUntil(-Infinity)
    const spec = { siteId, environment, now: receivedAt, criteria }
    const texts = { tooLarge: { resources: cohortTooLarge('criteria') }, conditions: { criteria } }
    const { size, share } = await runAnalysis(
      eventReader,
      { credential, signal },
      (runner) => measureCohort(spec, runner),
      { kind: 'cohort_preview', ...texts },
    )
    return { size, share, complete_until: completeUntilMs }
  })
}
