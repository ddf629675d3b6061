import { operations } from '@sluice/contracts/operations'
import type { Sessions } from '@sluice/http/access'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import type { KeyStore } from '@sluice/postgres/keys'
import type { SiteStore } from '@sluice/postgres/sites'
import type { Questions } from './ask.ts'
import { cohortAnalysisHandler } from './cohort-analysis/handler.ts'
import { createCohortHandler } from './create-cohort/handler.ts'
import { createKeyHandler } from './create-key/handler.ts'
import { createSiteHandler } from './create-site/handler.ts'
import type { SiteLookup } from './find-site.ts'
import { createSessionHandler, type SessionDeps } from './create-session/handler.ts'
import { deleteCohortHandler } from './delete-cohort/handler.ts'
import { deleteSessionHandler } from './delete-session/handler.ts'
import { funnelHandler } from './funnel/handler.ts'
import { getCohortHandler } from './get-cohort/handler.ts'
import { getKeyHandler } from './get-key/handler.ts'
import { getSessionHandler } from './get-session/handler.ts'
import { getSiteHandler } from './get-site/handler.ts'
import { listCohortsHandler } from './list-cohorts/handler.ts'
import { listKeysHandler } from './list-keys/handler.ts'
import { listSitesHandler } from './list-sites/handler.ts'
import { liveHandler } from './live/handler.ts'
import { previewCohortHandler } from './preview-cohort/handler.ts'
import { propertiesHandler } from './properties/handler.ts'
import { retentionHandler } from './retention/handler.ts'
import { revokeKeyHandler } from './revoke-key/handler.ts'
import { rotateKeyHandler } from './rotate-key/handler.ts'
import { statsHandler } from './stats/handler.ts'
import { statsBatchHandler } from './stats-batch/handler.ts'
import { updateCohortHandler } from './update-cohort/handler.ts'
import { updateKeyHandler } from './update-key/handler.ts'
import { updateSiteHandler } from './update-site/handler.ts'

export interface QueryDeps {
  clickHouse: Questions
  sites: SiteLookup
  siteStore: SiteStore
  keys: KeyStore
  cohorts: CohortStore
  access: Omit<SessionDeps, 'sessions'> & { sessions: Pick<Sessions, 'create' | 'delete'> }
  /** Until when (Unix ms) everything accepted can be read. */
  completeUntil: () => number
}

/** Contract sections 4 to 6. */
export function queryRoutes(deps: QueryDeps): Route[] {
  return [
    { ...operations.stats, handle: statsHandler(deps) },
    { ...operations.statsBatch, handle: statsBatchHandler(deps) },
    { ...operations.live, handle: liveHandler(deps) },
    { ...operations.properties, handle: propertiesHandler(deps) },
    { ...operations.funnel, handle: funnelHandler(deps) },
    { ...operations.createSession, handle: createSessionHandler(deps.access) },
    { ...operations.getSession, handle: getSessionHandler() },
    { ...operations.deleteSession, handle: deleteSessionHandler(deps.access) },
    { ...operations.createKey, handle: createKeyHandler(deps) },
    { ...operations.listKeys, handle: listKeysHandler(deps) },
    { ...operations.getKey, handle: getKeyHandler(deps) },
    { ...operations.updateKey, handle: updateKeyHandler(deps) },
    { ...operations.revokeKey, handle: revokeKeyHandler(deps) },
    { ...operations.rotateKey, handle: rotateKeyHandler(deps) },
    { ...operations.createSite, handle: createSiteHandler(deps) },
    { ...operations.listSites, handle: listSitesHandler(deps) },
    { ...operations.getSite, handle: getSiteHandler(deps) },
    { ...operations.updateSite, handle: updateSiteHandler(deps) },
    { ...operations.createCohort, handle: createCohortHandler(deps) },
    { ...operations.listCohorts, handle: listCohortsHandler(deps) },
    { ...operations.previewCohort, handle: previewCohortHandler(deps) },
    { ...operations.getCohort, handle: getCohortHandler(deps) },
    { ...operations.updateCohort, handle: updateCohortHandler(deps) },
    { ...operations.deleteCohort, handle: deleteCohortHandler(deps) },
    { ...operations.cohortAnalysis, handle: cohortAnalysisHandler(deps) },
    { ...operations.retention, handle: retentionHandler(deps) },
  ]
}
