import type { OperationId } from '@sluice/api/operations'
import type { ExportType } from '@sluice/contracts/exports'

/** The objects that a cell of the matrix names. */
export interface Target {
  siteId: string
  /** The id of a key that is bound to the site. */
  keyId: string
  /** The id of a cohort of the site. */
  cohortId: string
  /** The id of an import of the site. */
  importId: string
  /** The id of an erasure of the site. */
  erasureId: string
  /** The id of a webhook of the site, and of a delivery of it. */
  webhookId: string
  deliveryId: string
  /** The id of a completed export of the site. */
  exportId: string
  /** The id of an alert rule of the site. */
  ruleId: string
  /** A type of exports that the key may read, if it may read any. */
  exportType: ExportType
  /** A key that may open a session. */
  apiKey: string
  /** A text that no other cell has. */
  unique: string
}

export interface Sample {
  params?: Record<string, string>
  query?: Record<string, string>
  body?: unknown
  /** Fields of a form, which is sent in place of a body, with a file. */
  form?: Record<string, string>
  file?: string
}

const criteria = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'view' }] }

const condition = { metric: 'event_count', operator: 'greater_than', threshold: 10, window: '5m' }

/** A good request for every operation: one without a row here does not compile. */
export const samples: Readonly<Record<OperationId, (target: Target) => Sample>> = {
  collect: ({ siteId }) => ({ body: { site_id: siteId, event_type: 'view' } }),
  collectBatch: ({ siteId }) => ({ body: { events: [{ site_id: siteId, event_type: 'view' }] } }),
  segmentTrack: () => ({ body: { event: 'view' } }),
  segmentPage: () => ({ body: {} }),
  segmentScreen: () => ({ body: {} }),
  segmentIdentify: () => ({ body: {} }),
  segmentGroup: () => ({ body: {} }),
  segmentAlias: () => ({ body: {} }),
  segmentBatch: () => ({ body: { batch: [{ type: 'track', event: 'view' }] } }),
  segmentTrackShort: () => ({ body: { event: 'view' } }),
  segmentPageShort: () => ({ body: {} }),
  segmentScreenShort: () => ({ body: {} }),
  segmentIdentifyShort: () => ({ body: {} }),
  segmentGroupShort: () => ({ body: {} }),
  segmentAliasShort: () => ({ body: {} }),
  segmentBatchShort: () => ({ body: { batch: [{ type: 'track', event: 'view' }] } }),
  segmentImport: () => ({ body: { batch: [{ type: 'track', event: 'view' }] } }),
  segmentSettings: ({ apiKey }) => ({ params: { write_key: apiKey } }),
  stats: ({ siteId }) => ({ query: { site_id: siteId, metric: 'event_count' } }),
  statsBatch: ({ siteId }) => ({ body: { queries: [{ site_id: siteId, metric: 'event_count' }] } }),
  live: ({ siteId }) => ({ query: { site_id: siteId } }),
  properties: ({ siteId }) => ({ query: { site_id: siteId } }),
  events: ({ siteId }) => ({ query: { site_id: siteId } }),
  funnel: ({ siteId }) => ({ body: { site_id: siteId, steps: [{ event_type: 'a' }, { event_type: 'b' }] } }),
  createSession: ({ apiKey }) => ({ body: { api_key: apiKey } }),
  getSession: () => ({}),
  deleteSession: () => ({}),
  createKey: ({ siteId }) => ({ body: { name: 'made', scopes: ['stats:read'], site_ids: [siteId] } }),
  listKeys: () => ({ query: { limit: '1000' } }),
  getKey: ({ keyId }) => ({ params: { key_id: keyId } }),
  updateKey: ({ keyId }) => ({ params: { key_id: keyId }, body: { name: 'renamed' } }),
  revokeKey: ({ keyId }) => ({ params: { key_id: keyId } }),
  rotateKey: ({ keyId }) => ({ params: { key_id: keyId }, body: { overlap: '1h' } }),
  createSite: ({ siteId }) => ({ body: { site_id: siteId } }),
  listSites: () => ({ query: { limit: '1000' } }),
  getSite: ({ siteId }) => ({ params: { site_id: siteId } }),
  updateSite: ({ siteId }) => ({ params: { site_id: siteId }, body: { name: 'renamed' } }),
  deleteSite: ({ siteId }) => ({ params: { site_id: siteId } }),
  createErasure: ({ siteId, unique }) => ({ params: { site_id: siteId }, body: { user_id: unique } }),
  getErasure: ({ siteId, erasureId }) => ({ params: { site_id: siteId, erasure_id: erasureId } }),
  createCohort: ({ siteId }) => ({ body: { site_id: siteId, name: 'made', criteria } }),
  listCohorts: ({ siteId }) => ({ query: { site_id: siteId, limit: '1000' } }),
  previewCohort: ({ siteId }) => ({ body: { site_id: siteId, criteria } }),
  getCohort: ({ cohortId }) => ({ params: { cohort_id: cohortId } }),
  updateCohort: ({ cohortId }) => ({ params: { cohort_id: cohortId }, body: { name: 'renamed' } }),
  deleteCohort: ({ cohortId }) => ({ params: { cohort_id: cohortId } }),
  cohortAnalysis: ({ siteId, cohortId }) => ({ query: { site_id: siteId, cohort_id: cohortId } }),
  createImport: ({ siteId }) => ({
    form: { type: 'events', site_id: siteId },
    file: 'event_type,timestamp_ms\nview,1700000000000\n',
  }),
  listImports: ({ siteId }) => ({ query: { site_id: siteId, limit: '1000' } }),
  getImport: ({ importId }) => ({ params: { import_id: importId } }),
  listImportErrors: ({ importId }) => ({ params: { import_id: importId } }),
  cancelImport: ({ importId }) => ({ params: { import_id: importId } }),
  createExport: ({ siteId, exportType }) => ({ body: { site_id: siteId, type: exportType, format: 'json' } }),
  listExports: ({ siteId }) => ({ query: { site_id: siteId, limit: '1000' } }),
  getExport: ({ exportId }) => ({ params: { export_id: exportId } }),
  updateExport: ({ exportId }) => ({ params: { export_id: exportId }, body: { name: 'renamed' } }),
  deleteExport: ({ exportId }) => ({ params: { export_id: exportId } }),
  listExportRuns: ({ exportId }) => ({ params: { export_id: exportId } }),
  downloadExport: ({ exportId }) => ({ params: { export_id: exportId } }),
  createWebhook: ({ siteId }) => ({ body: { site_id: siteId, url: 'http://127.0.0.1/hook', events: ['alert'] } }),
  listWebhooks: ({ siteId }) => ({ query: { site_id: siteId, limit: '1000' } }),
  getWebhook: ({ webhookId }) => ({ params: { webhook_id: webhookId } }),
  updateWebhook: ({ webhookId }) => ({ params: { webhook_id: webhookId }, body: { active: true } }),
  deleteWebhook: ({ webhookId }) => ({ params: { webhook_id: webhookId } }),
  testWebhook: ({ webhookId }) => ({ params: { webhook_id: webhookId } }),
  rotateWebhookSecret: ({ webhookId }) => ({ params: { webhook_id: webhookId }, body: { overlap: '1h' } }),
  listDeliveries: ({ webhookId }) => ({ params: { webhook_id: webhookId } }),
  getDelivery: ({ webhookId, deliveryId }) => ({ params: { webhook_id: webhookId, delivery_id: deliveryId } }),
  replayDelivery: ({ webhookId, deliveryId }) => ({ params: { webhook_id: webhookId, delivery_id: deliveryId } }),
  createAlert: ({ siteId }) => ({
    body: {
      site_id: siteId,
      name: 'made',
      condition,
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1/hook' },
    },
  }),
  listAlerts: ({ siteId }) => ({ query: { site_id: siteId, limit: '1000' } }),
  previewAlert: ({ siteId }) => ({ body: { site_id: siteId, condition } }),
  getAlert: ({ ruleId }) => ({ params: { rule_id: ruleId } }),
  updateAlert: ({ ruleId }) => ({ params: { rule_id: ruleId }, body: { name: 'renamed' } }),
  deleteAlert: ({ ruleId }) => ({ params: { rule_id: ruleId } }),
  listAlertHistory: ({ ruleId }) => ({ params: { rule_id: ruleId } }),
  testAlert: ({ ruleId }) => ({ params: { rule_id: ruleId } }),
  recoverDeliveries: ({ webhookId }) => ({ params: { webhook_id: webhookId }, body: { since: 0 } }),
  retention: ({ siteId, cohortId }) => ({ query: { site_id: siteId, cohort_id: cohortId } }),
}
