import { requireReadableSite } from '@sluice/access/require-readable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { erasureSelectors } from '@sluice/contracts/erasures'
import { hashValue } from '@sluice/event-store/erasures/erased-rows'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { ErasureStore } from '@sluice/postgres/erasures'
import { newId } from '@sluice/runtime/ids'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { type AnalysisReader, runAnalysis } from '../run-analysis.ts'

/**
 * POST /api/v1/sites/:site_id/erasures: erases the events of a site that one selector matches. The selector's value
 * is hashed at once; the value itself is never stored. Throws 404 for a site that the key may not see.
 */
export function createErasureRoute({
  sites,
  erasures,
  eventReader,
  clock,
}: {
  sites: Pick<SiteLookup, 'find'>
  erasures: Pick<ErasureStore, 'create'>
  eventReader: AnalysisReader
  clock: Pick<SynchronizedClock, 'now'>
}): Route {
  return handle(operations.createErasure, async ({ params: { site_id: siteId }, body, credential, signal, log }) => {
    const kind = erasureSelectors.find((selector) => body[selector] !== undefined) ?? 'before'
    log({ site_id: siteId, kind })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const hashes =
      kind === 'before'
        ? null
        : await runAnalysis(
            eventReader,
            { credential, signal },
            (runner) => hashValue({ kind, siteId, value: body[kind] ?? '' }, runner),
            { tooLarge: 'unavailable' },
          )
    const erasureId = newId('era')
    const { before = null } = body
    const { keyId } = credential
    const erasure = { erasureId, siteId, kind, hashes, before, requestedAt: clock.now(), keyId }
    await retryUnknownOutcome(() => erasures.create(erasure))
    log({ erasure_id: erasureId })
    return { erasure_id: erasureId, status: 'queued' as const }
  })
}
