import type { KeyStore } from '@sluice/access/keys'
import type { Sessions } from '@sluice/access/sessions'
import type { SiteLookup, SiteStore } from '@sluice/access/sites'
import type { BlobStore } from '@sluice/blobs/blob-store'
import type { Route } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import type { ErasureStore } from '@sluice/postgres/erasures'
import type { ExportStore } from '@sluice/postgres/exports'
import type { ImportStore } from '@sluice/postgres/imports'
import type { AlertDeps } from './alerts/alert-deps.ts'
import { createAlertRoute } from './alerts/create-alert.ts'
import { deleteAlertRoute } from './alerts/delete-alert.ts'
import { getAlertRoute } from './alerts/get-alert.ts'
import { listAlertHistoryRoute } from './alerts/list-alert-history.ts'
import { listAlertsRoute } from './alerts/list-alerts.ts'
import { previewAlertRoute } from './alerts/preview-alert.ts'
import { testAlertRoute } from './alerts/test-alert.ts'
import { updateAlertRoute } from './alerts/update-alert.ts'
import { cohortAnalysisRoute } from './analytics/cohort-analysis.ts'
import { retentionRoute } from './analytics/retention.ts'
import { createCohortRoute } from './cohorts/create-cohort.ts'
import { deleteCohortRoute } from './cohorts/delete-cohort.ts'
import { getCohortRoute } from './cohorts/get-cohort.ts'
import { listCohortsRoute } from './cohorts/list-cohorts.ts'
import { previewCohortRoute } from './cohorts/preview-cohort.ts'
import { updateCohortRoute } from './cohorts/update-cohort.ts'
import type { ReadCompleteUntil } from './complete-until.ts'
import { createExportRoute } from './exports/create-export.ts'
import { deleteExportRoute } from './exports/delete-export.ts'
import { downloadExportRoute } from './exports/download-export.ts'
import { getExportRoute } from './exports/get-export.ts'
import { listExportRunsRoute } from './exports/list-export-runs.ts'
import { listExportsRoute } from './exports/list-exports.ts'
import { updateExportRoute } from './exports/update-export.ts'
import { cancelImportRoute } from './imports/cancel-import.ts'
import { createImportRoute } from './imports/create-import.ts'
import { getImportRoute } from './imports/get-import.ts'
import { listImportErrorsRoute } from './imports/list-import-errors.ts'
import { listImportsRoute } from './imports/list-imports.ts'
import { createKeyRoute } from './keys/create-key.ts'
import { getKeyRoute } from './keys/get-key.ts'
import { listKeysRoute } from './keys/list-keys.ts'
import { revokeKeyRoute } from './keys/revoke-key.ts'
import { rotateKeyRoute } from './keys/rotate-key.ts'
import { updateKeyRoute } from './keys/update-key.ts'
import type { AnalysisReader } from './run-analysis.ts'
import { createSessionRoute, type SessionDeps } from './session/create-session.ts'
import { deleteSessionRoute } from './session/delete-session.ts'
import { getSessionRoute } from './session/get-session.ts'
import { createErasureRoute } from './sites/create-erasure.ts'
import { createSiteRoute } from './sites/create-site.ts'
import { deleteSiteRoute } from './sites/delete-site.ts'
import { getErasureRoute } from './sites/get-erasure.ts'
import { getSiteRoute } from './sites/get-site.ts'
import { listSitesRoute } from './sites/list-sites.ts'
import { updateSiteRoute } from './sites/update-site.ts'
import { eventsRoute } from './stats/events.ts'
import { funnelRoute } from './stats/funnel.ts'
import { liveRoute } from './stats/live.ts'
import { propertiesRoute } from './stats/properties.ts'
import { statsRoute } from './stats/stats.ts'
import { statsBatchRoute } from './stats/stats-batch.ts'
import { createWebhookRoute } from './webhooks/create-webhook.ts'
import { deleteWebhookRoute } from './webhooks/delete-webhook.ts'
import { getDeliveryRoute } from './webhooks/get-delivery.ts'
import { getWebhookRoute } from './webhooks/get-webhook.ts'
import { listDeliveriesRoute } from './webhooks/list-deliveries.ts'
import { listWebhooksRoute } from './webhooks/list-webhooks.ts'
import { recoverDeliveriesRoute } from './webhooks/recover-deliveries.ts'
import { replayDeliveryRoute } from './webhooks/replay-delivery.ts'
import { rotateWebhookSecretRoute } from './webhooks/rotate-webhook-secret.ts'
import { testWebhookRoute } from './webhooks/test-webhook.ts'
import { updateWebhookRoute } from './webhooks/update-webhook.ts'
import type { WebhookDeps } from './webhooks/webhook-deps.ts'

export interface QueryDeps extends WebhookDeps, AlertDeps, SessionDeps {
  eventReader: AnalysisReader
  sites: SiteLookup
  siteStore: SiteStore
  keys: KeyStore
  cohorts: CohortStore
  erasures: ErasureStore
  imports: ImportStore
  exports: ExportStore
  blobs: BlobStore
  sessions: Pick<Sessions, 'create' | 'find' | 'delete'>
  readCompleteUntil: ReadCompleteUntil
}

/** The operations of docs/http-interface.md#operations under `/api/v1`. */
export function queryRoutes(deps: QueryDeps): Route[] {
  return [
    statsRoute(deps),
    statsBatchRoute(deps),
    liveRoute(deps),
    propertiesRoute(deps),
    eventsRoute(deps),
    funnelRoute(deps),
    createSessionRoute(deps),
    getSessionRoute(deps),
    deleteSessionRoute(deps),
    createKeyRoute(deps),
    listKeysRoute(deps),
    getKeyRoute(deps),
    updateKeyRoute(deps),
    revokeKeyRoute(deps),
    rotateKeyRoute(deps),
    createSiteRoute(deps),
    listSitesRoute(deps),
    getSiteRoute(deps),
    updateSiteRoute(deps),
    deleteSiteRoute(deps),
    createErasureRoute(deps),
    getErasureRoute(deps),
    createCohortRoute(deps),
    listCohortsRoute(deps),
    previewCohortRoute(deps),
    getCohortRoute(deps),
    updateCohortRoute(deps),
    deleteCohortRoute(deps),
    cohortAnalysisRoute(deps),
    retentionRoute(deps),
    createImportRoute(deps),
    listImportsRoute(deps),
    getImportRoute(deps),
    listImportErrorsRoute(deps),
    cancelImportRoute(deps),
    createExportRoute(deps),
    listExportsRoute(deps),
    getExportRoute(deps),
    updateExportRoute(deps),
    deleteExportRoute(deps),
    listExportRunsRoute(deps),
    downloadExportRoute(deps),
    createWebhookRoute(deps),
    listWebhooksRoute(deps),
    getWebhookRoute(deps),
    updateWebhookRoute(deps),
    deleteWebhookRoute(deps),
    testWebhookRoute(deps),
    rotateWebhookSecretRoute(deps),
    listDeliveriesRoute(deps),
    getDeliveryRoute(deps),
    replayDeliveryRoute(deps),
    recoverDeliveriesRoute(deps),
    createAlertRoute(deps),
    listAlertsRoute(deps),
    previewAlertRoute(deps),
    getAlertRoute(deps),
    updateAlertRoute(deps),
    deleteAlertRoute(deps),
    listAlertHistoryRoute(deps),
    testAlertRoute(deps),
  ]
}
