import { conditionError } from '@sluice/clickhouse/conditions'
import { previewCohortBody } from '@sluice/contracts/cohorts'
import type { Criteria } from '@sluice/contracts/conditions'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { asker, type Questions, type Statement } from '../ask.ts'
import { type CohortScope, membersStatement, tooHeavy } from '../cohort-members.ts'
import { userWeeksScope } from '../event-scope.ts'
import { percent } from '../percent.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'

/** POST /api/v1/cohorts/preview: how many users criteria describe now, before they are saved (contract section 6). */
export function previewCohortHandler({ clickHouse, sites }: { clickHouse: Questions; sites: ReadableSites }) {
  return async ({ body, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const asked = validate(previewCohortBody, parseJson(body.bytes))
    const { site_id: siteId, criteria, environment = credential.environment } = asked
    log({ site_id: siteId })
    await readableSite(sites, credential, siteId)
    const ask = asker(clickHouse, { credential, signal }, tooHeavy('criteria'))
    try {
      const { rows } = await ask<SizeRow>(sizeStatement(criteria, { siteId, environment, now: receivedAt }))
      const { size = 0, users = 0 } = rows[0] ?? {}
      // A user who comes between the two counts may be in the first alone.
      return { status: 200, data: { size, share: Math.min(100, percent(size, users)) } }
    } catch (error) {
      throw conditionError(error, criteria, 'criteria')
    }
  }
}

interface SizeRow {
  /** Users in the cohort. */
  size: number
  /** Users of the site. */
  users: number
}

/** The site's users are counted from the projection `user_weeks`. */
function sizeStatement(criteria: Criteria, scope: CohortScope): Statement {
  const members = membersStatement(criteria, scope)
  return {
    sql: `
SELECT
    (SELECT count() FROM (${members.sql})) AS size,
    (
        SELECT count() FROM
        (
            SELECT user_key FROM events WHERE ${userWeeksScope(scope)}
            GROUP BY user_key HAVING toUnixTimestamp64Milli(min(timestamp)) <= {now:Int64}
        )
    ) AS users`,
    params: { ...members.params, now: scope.now },
  }
}
