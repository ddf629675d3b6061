import { allowedSites } from '@sluice/access/allowed-sites'
import { refusalOf, type SiteCache } from '@sluice/access/site-cache'
import type { ValidEvent } from '@sluice/events/encode-event'
import type { ApiRequest } from '@sluice/http/route'
import { siteNotAllowed } from '@sluice/runtime/errors'
import type { Publisher } from '../publish/publisher.ts'

/** Resolves once the log has acknowledged the event of a request; throws AppError when it is refused. */
export type AcceptEvent = (event: ValidEvent, request: ApiRequest) => Promise<void>

/** The acceptance of single events, which `collect` and Segment's messages share. */
export function eventAcceptor({
  publisher,
  sites,
}: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
}): AcceptEvent {
  const sitesOf = allowedSites()
  return async (event, { body, receivedAt, credential, log }) => {
    log({ site_id: event.siteId, events: 1, bytes: body.bytes.length })
    if (sitesOf(credential.siteIds)?.has(event.siteId) === false) throw siteNotAllowed()
    const policy = (await sites.register(credential.keyId, new Set([event.siteId]))).get(event.siteId)
    const refusal = policy && refusalOf(policy, event.timestamp, receivedAt)
    if (refusal) throw refusal
    await publisher.publish([event], receivedAt)
  }
}
