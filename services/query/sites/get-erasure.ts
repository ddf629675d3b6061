import { operations } from '@sluice/api/operations'
import { allowsSite } from '@sluice/contracts/scopes'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { ErasureStore } from '@sluice/postgres/erasures'
import { notFound } from '@sluice/runtime/errors'

/**
 * GET /api/v1/sites/:site_id/erasures/:erasure_id: shows an erasure, also one of a site that is deleted. Throws 404 for
 * a missing or hidden one.
 */
export function getErasureRoute({ erasures }: { erasures: Pick<ErasureStore, 'find'> }): Route {
  return handle(
    operations.getErasure,
    async ({ params: { site_id: siteId, erasure_id: erasureId }, credential, log }) => {
      log({ site_id: siteId, erasure_id: erasureId })
      const record = allowsSite(credential.siteIds, siteId) ? await erasures.find(siteId, erasureId) : undefined
      if (!record) throw notFound('Erasure')
      return {
        erasure_id: record.erasureId,
        site_id: record.siteId,
        kind: record.kind,
        status: record.status,
        count: record.count,
        requested_at: record.requestedAt,
        completed_at: record.completedAt,
      }
    },
  )
}
