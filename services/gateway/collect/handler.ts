import { siteNotAllowed } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { parseJson } from '@sluice/http/json-body'
import { type KnownSites, refusalOf } from '../publish/known-sites.ts'
import type { Publisher } from '../publish/publisher.ts'
import { boundSites } from './bound-sites.ts'
import { encodeEvent, isEscapeFree } from './encode-event.ts'

/** POST /collect: one event in, 202 once the log has acknowledged it (contract section 3). */
export function collectHandler({ publisher, sites }: { publisher: Publisher; sites: Pick<KnownSites, 'register'> }) {
  const sitesOf = boundSites()
  return async ({ body, receivedAt, credential, log }: ApiRequest): Promise<Answer> => {
    const event = encodeEvent(parseJson(body.bytes), {
      receivedAt,
      environment: credential.environment,
      escapeFree: isEscapeFree(body.bytes),
    })
    log({ site_id: event.siteId, events: 1, bytes: body.bytes.length })
    if (sitesOf(credential.siteIds)?.has(event.siteId) === false) throw siteNotAllowed()
    const rule = (await sites.register(credential.keyId, new Set([event.siteId]))).get(event.siteId)
    const refusal = rule && refusalOf(rule, event.timestamp, receivedAt)
    if (refusal) throw refusal
    await publisher.publish([event], receivedAt)
    return { status: 202 }
  }
}
