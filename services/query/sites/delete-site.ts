import { requireReadableSite } from '@sluice/access/require-readable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { removeFiles } from '@sluice/blobs/remove-files'
import { handle } from '@sluice/http/handle'
import { removeOrLog } from '@sluice/http/remove-or-log'
import type { Route } from '@sluice/http/route'
import type { ErasureStore } from '@sluice/postgres/erasures'
import { notFound } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'

/**
 * DELETE /api/v1/sites/:site_id: removes a site with its cohorts, webhooks, alert rules, imports and exports, and
 * erases its events and users, as an erasure of kind `site`. Throws 404 for an unknown or hidden site.
 */
export function deleteSiteRoute({
  sites,
  erasures,
  blobs,
  clock,
}: {
  sites: Pick<SiteLookup, 'find'>
  erasures: Pick<ErasureStore, 'createForSite'>
  blobs: Pick<BlobStore, 'remove' | 'abortMultipartUpload'>
  clock: Pick<SynchronizedClock, 'now'>
}): Route {
  return handle(operations.deleteSite, async ({ params: { site_id: siteId }, credential, signal, log }) => {
    log({ site_id: siteId })
    // A site that is known by its events alone is registered by the look-up.
    await requireReadableSite(sites, { credential, signal }, siteId)
    const erasureId = newId('era')
    const { keyId } = credential
    const erasure = { erasureId, siteId, kind: 'site', hashes: null, before: null, keyId } as const
    const deleted = await retryUnknownOutcome(() => erasures.createForSite(erasure, () => clock.now()))
    if (!deleted) throw notFound('Site')
    log({ erasure_id: erasureId })
    // The site is deleted, whether its files can be removed now or not: the workers remove what nothing names.
    await removeOrLog(removeFiles(blobs, deleted.files), log)
    return { erasure_id: erasureId, status: 'queued' as const }
  })
}
