import { conflict, siteNotAllowed } from '@sluice/contracts/errors'
import { allowsSite } from '@sluice/contracts/scopes'
import { createSiteBody } from '@sluice/contracts/sites'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { SiteStore } from '@sluice/postgres/sites'
import type { Questions } from '../ask.ts'
import { findEventTimes } from '../event-times.ts'
import { toSiteResource } from '../site-resource.ts'
import { keptSettings } from '../time-zone.ts'

/** POST /api/v1/sites: registers a site with its settings, where its first event would do so without (contract section 5). */
export function createSiteHandler({
  siteStore,
  clickHouse,
}: {
  siteStore: Pick<SiteStore, 'create'>
  clickHouse: Questions
}) {
  return async ({ body, credential, signal, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId, ...settings } = validate(createSiteBody, parseJson(body.bytes))
    log({ site_id: siteId })
    if (!allowsSite(credential.siteIds, siteId)) throw siteNotAllowed()
    // Events may have come before. Asked first: a failure here must leave nothing behind.
    const times = await findEventTimes([siteId], clickHouse, { credential, signal })
    const record = await siteStore.create(siteId, keptSettings(settings), credential.keyId)
    if (!record) throw conflict('Site is registered already: change it with PUT')
    return { status: 201, data: toSiteResource(record, times) }
  }
}
