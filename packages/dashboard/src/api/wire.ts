import type {
  AlertHistoryEntry,
  AlertPreview,
  AlertResource,
  CreateAlertBody,
  PreviewAlertBody,
  UpdateAlertBody,
} from '@sluice/contracts/alerts'
import type {
  CohortPreview,
  CohortResource,
  CreateCohortBody,
  PreviewCohortBody,
  UpdateCohortBody,
} from '@sluice/contracts/cohorts'
import type { AcceptedErasure, CreateErasureBody, ErasureResource } from '@sluice/contracts/erasures'
import type { EventsQuery, EventsResult } from '@sluice/contracts/events'
import type { CreateExportBody, ExportResource, ExportRun, UpdateExportBody } from '@sluice/contracts/exports'
import type { FunnelBody, FunnelResult } from '@sluice/contracts/funnel'
import type { AcceptedImport, ImportError, ImportResource } from '@sluice/contracts/imports'
import type { CreateKeyBody, KeyResource, NewKeyResource, UpdateKeyBody } from '@sluice/contracts/keys'
import type { LiveQuery, LiveResult, SiteQuery } from '@sluice/contracts/live'
import type { ObservedPropertiesResult } from '@sluice/contracts/observed-properties'
import type { ListOf } from '@sluice/contracts/paging'
import type { CohortAnalysis, RetentionMatrix, RetentionMode } from '@sluice/contracts/retention'
import type { Environment } from '@sluice/contracts/scopes'
import type { NewSessionResource, SessionResource } from '@sluice/contracts/session'
import type { CreateSiteBody, SiteResource, UpdateSiteBody } from '@sluice/contracts/sites'
import type { StatsParameters, StatsResult } from '@sluice/contracts/stats'
import type { StatsBatchResult } from '@sluice/contracts/stats-batch'
import type {
  CreateWebhookBody,
  DeliveryResource,
  DeliveryStatus,
  DeliveryWithPayload,
  NewWebhookResource,
  UpdateWebhookBody,
  WebhookResource,
} from '@sluice/contracts/webhooks'

/** A query to GET /stats, and an entry of POST /stats/batch. */
export type StatsQuery = Pick<StatsParameters, 'site_id' | 'metric'> &
  Partial<Omit<StatsParameters, 'site_id' | 'metric'>>

interface OfSite {
  site_id: string
  environment?: Environment | 'all'
}
interface Page {
  limit?: number
  offset?: number
}
/** Bodies take times as Unix ms and durations as `7d`. */
type FunnelInput = Omit<FunnelBody, 'window' | 'of'> & { window?: string; of?: FunnelBody['of'] }
interface RetentionInput extends OfSite {
  weeks?: number
  cohort_id?: string
  return_event?: string
  mode?: RetentionMode
  of?: 'user' | 'visitor'
  timezone?: string
  end_date?: number
}

/** Input and result of each operation of the OpenAPI document. `params` are in the path. */
export interface Operations {
  stats: { query: StatsQuery; data: StatsResult }
  statsBatch: { body: { queries: StatsQuery[] }; data: StatsBatchResult }
  live: { query: LiveQuery; data: LiveResult }
  properties: { query: SiteQuery; data: ObservedPropertiesResult }
  events: {
    query: Omit<EventsQuery, 'limit' | 'before'> & { limit?: number; before?: string }
    data: EventsResult
  }
  funnel: { body: FunnelInput; data: FunnelResult }
  createSession: { body: { api_key: string } | { code: string }; data: NewSessionResource }
  getSession: { data: SessionResource }
  deleteSession: { data: undefined }
  createKey: { body: Partial<CreateKeyBody> & { name: string }; data: NewKeyResource }
  listKeys: { query: Page; data: ListOf<'keys', KeyResource> }
  getKey: { params: { key_id: string }; data: KeyResource }
  updateKey: { params: { key_id: string }; body: UpdateKeyBody; data: KeyResource }
  revokeKey: { params: { key_id: string }; data: undefined }
  rotateKey: { params: { key_id: string }; body: { overlap: string }; data: NewKeyResource }
  createSite: { body: CreateSiteBody; data: SiteResource }
  listSites: { query: Page; data: ListOf<'sites', SiteResource> }
  getSite: { params: { site_id: string }; data: SiteResource }
  updateSite: { params: { site_id: string }; body: UpdateSiteBody; data: SiteResource }
  deleteSite: { params: { site_id: string }; data: AcceptedErasure }
  createErasure: { params: { site_id: string }; body: CreateErasureBody; data: AcceptedErasure }
  getErasure: { params: { site_id: string; erasure_id: string }; data: ErasureResource }
  createCohort: { body: CreateCohortBody; data: CohortResource }
  listCohorts: { query: OfSite & Page; data: ListOf<'cohorts', CohortResource> }
  previewCohort: { body: PreviewCohortBody; data: CohortPreview }
  getCohort: { params: { cohort_id: string }; data: CohortResource }
  updateCohort: { params: { cohort_id: string }; body: UpdateCohortBody; data: CohortResource }
  deleteCohort: { params: { cohort_id: string }; data: undefined }
  cohortAnalysis: { query: OfSite & { cohort_id: string; weeks?: number }; data: CohortAnalysis }
  retention: { query: RetentionInput; data: RetentionMatrix }
  createImport: { data: AcceptedImport }
  listImports: { query: { site_id: string } & Page; data: ListOf<'imports', ImportResource> }
  getImport: { params: { import_id: string }; data: ImportResource }
  listImportErrors: { params: { import_id: string }; query: Page; data: ListOf<'errors', ImportError> }
  cancelImport: { params: { import_id: string }; data: ImportResource }
  createExport: { body: CreateExportBody; data: ExportResource }
  listExports: { query: { site_id: string } & Page; data: ListOf<'exports', ExportResource> }
  getExport: { params: { export_id: string }; data: ExportResource }
  updateExport: { params: { export_id: string }; body: UpdateExportBody; data: ExportResource }
  deleteExport: { params: { export_id: string }; data: undefined }
  /** A link leads there: the answer is the file. */
  downloadExport: { params: { export_id: string }; data: undefined }
  listExportRuns: { params: { export_id: string }; query: Page; data: ListOf<'runs', ExportRun> }
  createAlert: { body: CreateAlertBody; data: AlertResource }
  listAlerts: { query: { site_id: string } & Page; data: ListOf<'alerts', AlertResource> }
  previewAlert: { body: PreviewAlertBody; data: AlertPreview }
  getAlert: { params: { rule_id: string }; data: AlertResource }
  updateAlert: { params: { rule_id: string }; body: UpdateAlertBody; data: AlertResource }
  deleteAlert: { params: { rule_id: string }; data: undefined }
  listAlertHistory: { params: { rule_id: string }; query: Page; data: ListOf<'history', AlertHistoryEntry> }
  testAlert: { params: { rule_id: string }; data: { rule_id: string; notification_type: string } }
  createWebhook: { body: CreateWebhookBody; data: NewWebhookResource }
  listWebhooks: { query: { site_id: string } & Page; data: ListOf<'webhooks', WebhookResource> }
  getWebhook: { params: { webhook_id: string }; data: WebhookResource }
  updateWebhook: { params: { webhook_id: string }; body: UpdateWebhookBody; data: WebhookResource }
  deleteWebhook: { params: { webhook_id: string }; data: undefined }
  testWebhook: { params: { webhook_id: string }; data: { delivery_id: string } }
  rotateWebhookSecret: {
    params: { webhook_id: string }
    body: { overlap?: string; secret?: string }
    data: NewWebhookResource
  }
  listDeliveries: {
    params: { webhook_id: string }
    query: Page & { status?: DeliveryStatus }
    data: ListOf<'deliveries', DeliveryResource>
  }
  getDelivery: { params: { webhook_id: string; delivery_id: string }; data: DeliveryWithPayload }
  replayDelivery: { params: { webhook_id: string; delivery_id: string }; data: { delivery_id: string } }
  recoverDeliveries: { params: { webhook_id: string }; body: { since: number }; data: { recovered: number } }
}

export type OperationId = keyof Operations
/** The input of an operation: `params`, `query` and `body`, as far as it has them. */
export type Input<Id extends OperationId> = Omit<Operations[Id], 'data'>
/** The `data` of an operation's answer; undefined where it has none. */
export type Data<Id extends OperationId> = Operations[Id]['data']
