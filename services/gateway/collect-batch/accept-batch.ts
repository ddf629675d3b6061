import { allowedSites } from '@sluice/access/allowed-sites'
import type { SiteCache } from '@sluice/access/site-cache'
import type { BatchResult } from '@sluice/contracts/batch-result'
import type { ApiRequest } from '@sluice/http/route'
import { AppError } from '@sluice/runtime/errors'
import type { CountRejection } from '../metrics.ts'
import type { Publisher } from '../publish/publisher.ts'
import { encodeBatch, withoutRefused } from './encode-batch.ts'
import type { BatchEvents } from './read-events.ts'

/**
 * Accepts the valid events of a batch, even if others are invalid: resolves once the log has acknowledged them.
 * `noneValid`: the message of the 400 when there are none.
 */
export type AcceptBatch = (request: ApiRequest, events: BatchEvents, noneValid: string) => Promise<BatchResult>

/** The acceptance of batches, which `collect_batch` and Segment's messages share. */
export function batchAcceptor({
  publisher,
  sites,
  countRejection,
}: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}): AcceptBatch {
  const sitesOf = allowedSites()
  return async (request, { count, items }, noneValid) => {
    const bytes = request.body.bytes.length
    // The rate limit is checked before the events cause any work.
    await request.consume(count)
    const valid = encodeBatch(items, request, sitesOf(request.credential.siteIds), countRejection)
    // The body must not stay in memory during the publish: it may be 10 MiB of white space, compressed to a few bytes.
    request.releaseBody()
    const policies = await sites.register(request.credential.keyId, valid.siteIds)
    const { accepted, siteIds, rejected, errors } =
      policies.size === 0 ? valid : withoutRefused(valid, policies, request.receivedAt, countRejection)

    const [first] = errors
    request.log({ events: accepted.length, rejected, sites: siteIds.size, bytes, ...(first && { error: first.error }) })
    const data: BatchResult = { accepted: accepted.length, rejected, errors }
    if (accepted.length === 0) throw new AppError('invalid_field', { message: noneValid, data })
    // No await, so that the variables of this function, above all the texts of the events, can be collected meanwhile.
    return publisher.publish(accepted, request.receivedAt).then(() => data)
  }
}
