import { pageQuery } from '@sluice/contracts/page'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { SiteStore } from '@sluice/postgres/sites'
import type { Questions } from '../ask.ts'
import { findEventTimes } from '../event-times.ts'
import { toSiteResource } from '../site-resource.ts'

/** GET /api/v1/sites: registered sites by their ids, a bound key's own alone. */
export function listSitesHandler({
  siteStore,
  clickHouse,
}: {
  siteStore: Pick<SiteStore, 'list'>
  clickHouse: Questions
}) {
  return async ({ query, credential, signal }: ApiRequest): Promise<Answer> => {
    const page = validate(pageQuery, { ...query })
    const { sites, total } = await siteStore.list(page, credential.siteIds)
    const times = await findEventTimes(
      sites.map(({ siteId }) => siteId),
      clickHouse,
      { credential, signal },
    )
    return { status: 200, data: { sites: sites.map((site) => toSiteResource(site, times)), total, ...page } }
  }
}
