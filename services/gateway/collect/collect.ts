import { allowedSites } from '@sluice/access/allowed-sites'
import { refusalOf, type SiteCache } from '@sluice/access/site-cache'
import { encodeEvent } from '@sluice/events/encode-event'
import { parseJson } from '@sluice/http/json-body'
import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import { siteNotAllowed } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import type { CountRejection } from '../metrics.ts'
import type { Publisher } from '../publish/publisher.ts'

/** POST /collect: one event in, 202 once the log has acknowledged it (docs/http-interface.md#collection). */
export function collectHandler({
  publisher,
  sites,
  countRejection,
}: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}) {
  const sitesOf = allowedSites()
  return async ({ body, receivedAt, credential, log }: ApiRequest): Promise<HandlerResult> => {
    try {
      const event = encodeEvent(parseJson(body.bytes), {
        receivedAt,
        environment: credential.environment,
        parseAgain: () => parseJson(body.bytes, parseExactly),
      })
      log({ site_id: event.siteId, events: 1, bytes: body.bytes.length })
      if (sitesOf(credential.siteIds)?.has(event.siteId) === false) throw siteNotAllowed()
      const policy = (await sites.register(credential.keyId, new Set([event.siteId]))).get(event.siteId)
      const refusal = policy && refusalOf(policy, event.timestamp, receivedAt)
      if (refusal) throw refusal
      await publisher.publish([event], receivedAt)
      return { status: 202 }
    } catch (error) {
      countRejection(error)
      throw error
    }
  }
}
