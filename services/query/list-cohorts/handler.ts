import { listCohortsQuery } from '@sluice/contracts/cohorts'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { toCohortResource } from '../cohort-resource.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'

/** GET /api/v1/cohorts: a site's cohorts, newest first. */
export function listCohortsHandler({ sites, cohorts }: { sites: ReadableSites; cohorts: Pick<CohortStore, 'list'> }) {
  return async ({ query, credential, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId, ...page } = validate(listCohortsQuery, { ...query })
    log({ site_id: siteId })
    await readableSite(sites, credential, siteId)
    const { cohorts: records, total } = await cohorts.list(siteId, page)
    return { status: 200, data: { cohorts: records.map(toCohortResource), total, ...page } }
  }
}
