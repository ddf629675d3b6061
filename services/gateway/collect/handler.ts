import { rateLimited } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { parseJson } from '@sluice/http/json-body'
import type { KnownSites } from '../publish/known-sites.ts'
import type { Publisher } from '../publish/publisher.ts'
import { encodeEvent, isEscapeFree } from './encode-event.ts'

/** POST /collect: one event in, 202 once the log has acknowledged it (contract section 3). */
export function collectHandler({ publisher, sites }: { publisher: Publisher; sites: KnownSites }) {
  return async ({ body, receivedAt, credential, log }: ApiRequest): Promise<Answer> => {
    const event = encodeEvent(parseJson(body.bytes), {
      receivedAt,
      environment: credential.environment,
      escapeFree: isEscapeFree(body.bytes),
    })
    log({ site_id: event.siteId, events: 1, bytes: body.bytes.length })
    const refused = await sites.register(credential.keyId, new Set([event.siteId]))
    const retryAfterSeconds = refused.get(event.siteId)
    if (retryAfterSeconds !== undefined) throw rateLimited(retryAfterSeconds)
    await publisher.publish([event])
    return { status: 202 }
  }
}
