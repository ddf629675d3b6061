import type { SiteStore } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { allowsSite } from '@sluice/contracts/scopes'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { conflict, siteNotAllowed } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import type { AnalysisReader } from '../run-analysis.ts'
import { readEventTimeRanges } from './read-event-time-ranges.ts'
import { toSiteResource } from './site-resource.ts'
import { storedSettings } from './stored-settings.ts'

/**
 * POST /api/v1/sites: registers a site with settings; its first event would register it without any
 * (docs/http-interface.md#create-site). Throws 403 for a site that the key is not bound to, and 409 for a registered
 * one.
 */
export function createSiteRoute({
  siteStore,
  eventReader,
}: {
  siteStore: Pick<SiteStore, 'create' | 'findCreated'>
  eventReader: AnalysisReader
}): Route {
  return handle(operations.createSite, async ({ body, credential, signal, log }) => {
    const { site_id: siteId, ...settings } = body
    log({ site_id: siteId })
    if (!allowsSite(credential.siteIds, siteId)) throw siteNotAllowed()
    // Events may have come before the registration. Read first, so that a failure leaves nothing behind.
    const times = await readEventTimeRanges([siteId], eventReader, { credential, signal })
    const created = [siteId, storedSettings(settings), credential.keyId] as const
    const create = () => siteStore.create(...created)
    const record = await retryUnknownOutcome(create, async () => (await create()) ?? siteStore.findCreated(...created))
    if (!record) throw conflict('Site is registered already: change it with PUT')
    return toSiteResource(record, times)
  })
}
