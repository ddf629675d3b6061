import { requireWritableSite } from '@sluice/access/require-writable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import type { CreateExportBody, ExportSpec } from '@sluice/contracts/exports'
import { allowsSite, type Environment, grants } from '@sluice/contracts/scopes'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { toExportResource } from '@sluice/postgres/export-resource'
import type { ExportStore } from '@sluice/postgres/exports'
import { insufficientScope, notFound, siteNotAllowed } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { scopeOfType } from './permitted-types.ts'
import { requireCompatibleFields } from './require-compatible-fields.ts'

export interface CreateExportDeps {
  sites: Pick<SiteLookup, 'findOrRegister'>
  cohorts: Pick<CohortStore, 'find'>
  exports: Pick<ExportStore, 'create'>
  clock: Pick<SynchronizedClock, 'now'>
}

/**
 * POST /api/v1/exports: hands an export to the workers, or a schedule that makes one at each of its times. Throws 400
 * for fields that don't go together, 403 for a type that the key may not read, 404 for a cohort of another site, and
 * the errors of `requireWritableSite`.
 */
export function createExportRoute({ sites, cohorts, exports, clock }: CreateExportDeps): Route {
  return handle(operations.createExport, async ({ body, credential, signal, log }) => {
    const { site_id: siteId, type, name = type, scheduled, cohort_id: cohortId } = body
    log({ site_id: siteId, type })
    const now = clock.now()
    requireCompatibleFields(body, now)
    const scope = scopeOfType(type)
    if (!grants(credential.scopes, scope)) throw insufficientScope(scope)
    if (!allowsSite(credential.siteIds, siteId)) throw siteNotAllowed()
    // Before the site is registered: a refused request registers none.
    if (cohortId !== undefined && !(await cohorts.find(cohortId, [siteId]))) throw notFound('Cohort')
    await requireWritableSite(sites, { credential, signal }, siteId)

    const exportId = newId('exp')
    const created = {
      exportId,
      siteId,
      keyId: credential.keyId,
      name,
      spec: toSpec(body, credential.environment),
      ...(scheduled && {
        scheduled: {
          frequency: scheduled.frequency,
          nextRun: scheduled.next_run ?? now,
          paused: scheduled.paused ?? false,
        },
      }),
    }
    const record = await retryUnknownOutcome(() => exports.create(created, now))
    log({ export_id: exportId })
    return toExportResource(record)
  })
}

function toSpec(body: CreateExportBody, ownEnvironment: Environment): ExportSpec {
  const { site_id: _, name: __, scheduled: ___, environment = ownEnvironment, csv_safe = true, ...spec } = body
  return { ...spec, environment, csv_safe }
}
