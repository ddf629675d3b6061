import { conditionError } from '@sluice/clickhouse/conditions'
import { notFound } from '@sluice/contracts/errors'
import { type CohortAnalysis, cohortAnalysisQuery, type CompletableRow } from '@sluice/contracts/retention'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { asker, type Questions } from '../ask.ts'
import { tooHeavy } from '../cohort-members.ts'
import { percent } from '../percent.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { type AgeRow, analysisStatement } from './sql.ts'

/** GET /api/v1/analytics/cohorts: how many of a cohort's users come back, week by week from their entry. */
export function cohortAnalysisHandler({
  clickHouse,
  sites,
  cohorts,
}: {
  clickHouse: Questions
  sites: ReadableSites
  cohorts: Pick<CohortStore, 'find'>
}) {
  return async ({ query, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const asked = validate(cohortAnalysisQuery, query)
    const { site_id: siteId, cohort_id: cohortId, weeks, environment = credential.environment } = asked
    log({ site_id: siteId, cohort_id: cohortId, weeks })
    await readableSite(sites, credential, siteId)
    const cohort = await cohorts.find(cohortId, [siteId])
    if (!cohort) throw notFound('Cohort')

    const { name, criteria } = cohort.settings
    const ask = asker(clickHouse, { credential, signal }, tooHeavy('cohort_id'))
    try {
      const { rows } = await ask<AgeRow>(analysisStatement({ siteId, environment, now: receivedAt, criteria, weeks }))
      const data: CohortAnalysis = {
        cohort_id: cohortId,
        site_id: siteId,
        cohort_name: name,
        size: usersOf(rows),
        retention_by_week: Array.from({ length: weeks }, (_, week) => rowOf(rows, week)),
      }
      return { status: 200, data }
    } catch (error) {
      throw conditionError(error, criteria, 'criteria')
    }
  }
}

/** Row 0 counts everyone; a later one those whose week is over or, while there are none, those whose week has begun. */
function rowOf(rows: readonly AgeRow[], week: number): CompletableRow {
  const over = rows.filter(({ weeks_over }) => weeks_over > week)
  const begun = rows.filter(({ weeks_over }) => weeks_over >= week)
  const complete = week === 0 ? over.length === rows.length : over.length > 0
  const counted = week === 0 || !complete ? begun : over
  const size = usersOf(counted)
  const returning = counted.reduce((sum, { returned }) => sum + (returned[week] ?? 0), 0)
  return { week, retention_rate: percent(returning, size), cohort_size: size, returning_users: returning, complete }
}

function usersOf(rows: readonly AgeRow[]): number {
  return rows.reduce((sum, { users }) => sum + users, 0)
}
