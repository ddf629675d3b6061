import { conditionError } from '@sluice/clickhouse/conditions'
import { notFound } from '@sluice/contracts/errors'
import { eventLimits } from '@sluice/contracts/event-fields'
import {
  type CompletableRow,
  type RetentionMatrix,
  retentionQuery,
  type RetentionRow,
} from '@sluice/contracts/retention'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { asker, type Questions, type TooMuch } from '../ask.ts'
import { tooHeavy } from '../cohort-members.ts'
import { percent } from '../percent.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { timeZoneId } from '../time-zone.ts'
import { retentionStatement, type WeekRow } from './sql.ts'
import { lastWeeks } from './weeks.ts'

/** GET /api/v1/analytics/retention: of each week's new users, how many come back in the weeks after it. */
export function retentionHandler({
  clickHouse,
  sites,
  cohorts,
}: {
  clickHouse: Questions
  sites: ReadableSites
  cohorts: Pick<CohortStore, 'find'>
}) {
  return async ({ query, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const asked = validate(retentionQuery, query)
    const { site_id: siteId, weeks, cohort_id: cohortId, return_event: returnEvent, mode } = asked
    const { end_date: now = receivedAt, environment = credential.environment } = asked
    log({ site_id: siteId, weeks })
    const site = await readableSite(sites, credential, siteId)
    const cohort = cohortId === undefined ? undefined : await cohorts.find(cohortId, [siteId])
    if (cohortId !== undefined && !cohort) throw notFound('Cohort')

    const criteria = cohort?.settings.criteria
    const timeZone = timeZoneId(asked.timezone ?? site.timezone)
    const starts = lastWeeks(now, weeks, timeZone)
    const ask = asker(clickHouse, { credential, signal }, cohort ? tooHeavy('cohort_id') : tooMany)
    try {
      const { rows } = await ask<WeekRow>(
        retentionStatement({
          siteId,
          environment,
          now,
          starts,
          // A day more, for clocks that differ.
          latest: receivedAt + 2 * eventLimits.futureMsMax,
          mode,
          ...(returnEvent === undefined ? {} : { returnEvent }),
          ...(criteria && { criteria }),
        }),
      )
      const matrix = matrixOf(rows, starts)
      const data: RetentionMatrix = {
        site_id: siteId,
        weeks,
        timezone: timeZone,
        cohorts: matrix,
        average: averageOf(matrix),
      }
      return { status: 200, data }
    } catch (error) {
      throw criteria ? conditionError(error, criteria, 'criteria') : error
    }
  }
}

const tooMany: TooMuch = { field: 'site_id', reason: 'has more users than one answer may count' }

/** A row for each week up to the last, which is not over. */
function matrixOf(rows: readonly WeekRow[], starts: readonly number[]): RetentionMatrix['cohorts'] {
  return starts.map((week_start, index) => {
    const { users: size = 0, returned = [] } = rows.find(({ begun }) => begun === index) ?? {}
    const retention_by_week = starts.slice(index).map((_, week): CompletableRow => ({
      ...rowOf(week, size, returned[index + week] ?? 0),
      complete: index + week < starts.length - 1,
    }))
    return { week_start, size, retention_by_week }
  })
}

/** Over all users whose week is over: larger cohorts weigh more. */
function averageOf(matrix: RetentionMatrix['cohorts']): RetentionRow[] {
  return matrix.slice(1).map((_, week) => {
    const complete = matrix
      .map(({ retention_by_week }) => retention_by_week[week])
      .filter((row) => row?.complete === true)
    const sum = (count: (row: CompletableRow) => number): number =>
      complete.reduce((total, row) => total + (row ? count(row) : 0), 0)
    return rowOf(
      week,
      sum(({ cohort_size }) => cohort_size),
      sum(({ returning_users }) => returning_users),
    )
  })
}

function rowOf(week: number, size: number, returning: number): RetentionRow {
  return { week, retention_rate: percent(returning, size), cohort_size: size, returning_users: returning }
}
