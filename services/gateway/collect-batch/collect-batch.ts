import { allowedSites } from '@sluice/access/allowed-sites'
import type { SiteCache } from '@sluice/access/site-cache'
import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import { AppError } from '@sluice/runtime/errors'
import type { CountRejection } from '../metrics.ts'
import type { Publisher } from '../publish/publisher.ts'
import { encodeBatch, withoutRefused } from './encode-batch.ts'
import { readEvents } from './read-events.ts'

/**
 * POST /collect/batch: valid events are accepted even if others are invalid. 202 once the log has acknowledged the
 * valid ones, 400 if there are none (docs/http-interface.md#batches).
 */
export function collectBatchHandler({
  publisher,
  sites,
  countRejection,
}: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}) {
  const sitesOf = allowedSites()
  return async (request: ApiRequest): Promise<HandlerResult> => {
    const bytes = request.body.bytes.length
    const { count, items } = readEvents(request.body)
    // The rate limit comes before the work that the events cause.
    await request.consume(count)
    const valid = encodeBatch(items, request, sitesOf(request.credential.siteIds), countRejection)
    // The body may be 10 MiB of white space, compressed to a few bytes: it must not stay in memory during the publish.
    request.releaseBody()
    const policies = await sites.register(request.credential.keyId, valid.siteIds)
    const { accepted, siteIds, rejected, errors } =
      policies.size === 0 ? valid : withoutRefused(valid, policies, request.receivedAt, countRejection)

    request.log({ events: accepted.length, rejected, sites: siteIds.size, bytes })
    const data = { accepted: accepted.length, rejected, errors }
    if (accepted.length === 0) {
      throw new AppError('invalid_field', {
        message: 'Invalid field: events holds no valid event, see data.errors',
        data,
      })
    }
    // No await, so that the variables of this function, above all the texts of the events, can be collected meanwhile.
    return publisher.publish(accepted, request.receivedAt).then(() => ({ status: 202, data }))
  }
}
