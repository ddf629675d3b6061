import { SluiceError } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KnownSites } from '../publish/known-sites.ts'
import type { Publisher } from '../publish/publisher.ts'
import { boundSites } from '../collect/bound-sites.ts'
import { encodeBatch, withoutRefused } from './encode-batch.ts'
import { readEvents } from './read-events.ts'

/**
 * POST /collect/batch: good events are accepted although others are bad; 202 once the log has acknowledged the good
 * ones, 400 when there is none (contract section 3).
 */
export function collectBatchHandler({
  publisher,
  sites,
}: {
  publisher: Publisher
  sites: Pick<KnownSites, 'register'>
}) {
  const sitesOf = boundSites()
  return async (request: ApiRequest): Promise<Answer> => {
    const bytes = request.body.bytes.length
    const { count, items } = readEvents(request.body)
    // Before the work that it causes.
    await request.spend(count)
    const valid = encodeBatch(items, request, sitesOf(request.credential.siteIds))
    // 10 MiB of white space, sent as a few bytes, must not stay in memory while the event waits for the log.
    request.releaseBody()
    const rules = await sites.register(request.credential.keyId, valid.siteIds)
    const { accepted, siteIds, rejected, errors } =
      rules.size === 0 ? valid : withoutRefused(valid, rules, request.receivedAt)

    request.log({ events: accepted.length, rejected, sites: siteIds.size, bytes })
    const data = { accepted: accepted.length, rejected, errors }
    if (accepted.length === 0) {
      throw new SluiceError(400, { message: 'Invalid field: events holds no valid event, see data.errors', data })
    }
    // No await: what this function holds, the events' text above all, is free while the log takes its time.
    return publisher.publish(accepted, request.receivedAt).then(() => ({ status: 202, data }))
  }
}
