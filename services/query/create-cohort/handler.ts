import { createCohortBody } from '@sluice/contracts/cohorts'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { ulid } from 'ulid'
import { toCohortResource } from '../cohort-resource.ts'
import type { SiteLookup } from '../find-site.ts'
import { writableSite } from '../writable-site.ts'

/** POST /api/v1/cohorts: makes a cohort of a site, which is known from then on (contract section 6). */
export function createCohortHandler({
  sites,
  cohorts,
}: {
  sites: Pick<SiteLookup, 'findOrRegister'>
  cohorts: Pick<CohortStore, 'create'>
}) {
  return async ({ body, credential, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId, name, description = null, criteria } = validate(createCohortBody, parseJson(body.bytes))
    log({ site_id: siteId })
    await writableSite(sites, credential, siteId)
    const cohortId = `coh_${ulid()}`
    const record = await cohorts.create({ cohortId, siteId, settings: { name, description, criteria } })
    log({ cohort_id: cohortId })
    return { status: 201, data: toCohortResource(record) }
  }
}
