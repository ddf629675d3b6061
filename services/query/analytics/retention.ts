import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { timeZoneId } from '@sluice/event-store/calendar'
import { analyseRetention } from '@sluice/event-store/retention/analyse-retention'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { requireFound } from '@sluice/runtime/errors'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, cohortTooLarge, type FieldText, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { toCompletableRow, toRetentionRow } from './retention-rows.ts'

const tooManyUsers: FieldText = { field: 'site_id', reason: 'has more users than one answer may count' }

/**
 * GET /api/v1/analytics/retention (docs/http-interface.md#retention): the new users of each week, and those of them
 * that return in the weeks after it.
 */
export function retentionRoute({
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
  return handleAnalysis(operations.retention, eventReader, async ({ query, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, weeks, cohort_id: cohortId, return_event: returnEvent, mode, of } = query
    const { end_date: now = receivedAt, environment = credential.environment } = query
    log({ site_id: siteId, weeks })
    const site = await requireReadableSite(sites, { credential, signal }, siteId)
    const cohort = cohortId === undefined ? undefined : requireFound(await cohorts.find(cohortId, [siteId]), 'Cohort')

    const criteria = cohort?.settings.criteria
    const timeZone = timeZoneId(query.timezone ?? site.settings.timezone)
    const completeUntilMs = readCompleteUntil(-Infinity)
    const spec = {
      siteId,
      environment,
      now,
      weeks,
      timeZone,
      receivedAt,
      mode,
      of,
      ...(returnEvent === undefined ? {} : { returnEvent }),
      ...(criteria && { criteria }),
    }
    const matrix = await runAnalysis(eventReader, { credential, signal }, (runner) => analyseRetention(spec, runner), {
      kind: 'retention',
      tooLarge: { resources: cohort ? cohortTooLarge('cohort_id') : tooManyUsers },
      ...(criteria && { conditions: { criteria } }),
    })
    return {
      site_id: siteId,
      weeks,
      timezone: timeZone,
      cohorts: matrix.newUsers.map(({ weekStart, size, weeks: numbers }) => ({
        week_start: weekStart,
        size,
        retention_by_week: numbers.map(toCompletableRow),
      })),
      average: matrix.average.map(toRetentionRow),
      complete_until: completeUntilMs,
    }
  })
}
