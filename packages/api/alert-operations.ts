import type { AlertResource } from '@sluice/contracts/alerts'
import {
  alertHistoryResult,
  alertPreviewResult,
  alertResource,
  alertsResult,
  alertTestResult,
  createAlertBody,
  listAlertsQuery,
  previewAlertBody,
  updateAlertBody,
} from './alerts.ts'
import { largeJsonBody, noFields, type Operation } from './operation.ts'
import { pageQuery } from './paging.ts'

const alerts = { section: 'Alert rules', scope: 'admin' } as const
const rule = { of: 'object', parameter: 'rule_id', name: 'Alert rule' } as const

/** The part of operations.ts that is about alert rules. */
export const alertOperations = {
  createAlert: {
    ...alerts,
    id: 'createAlert',
    method: 'POST',
    path: '/api/v1/alerts',
    summary:
      'Creates a rule, which is evaluated every minute. Only this answer contains a secret that Sluice generated for it.',
    limit: 'admin',
    rights: { of: 'site', in: 'body' },
    body: largeJsonBody(createAlertBody),
    response: { status: 201, data: alertResource },
    // 404: the site is unknown, and sites are not registered automatically. 409: the site has as many rules as it may.
    errors: [404, 409],
    idempotent: true,
    containsGeneratedSecret: (data) => (data as AlertResource).notification_config.secret !== undefined,
  },
  listAlerts: {
    ...alerts,
    id: 'listAlerts',
    method: 'GET',
    path: '/api/v1/alerts',
    summary: 'Lists the alert rules of a site with their states, newest first.',
    limit: 'queries',
    rights: { of: 'site', in: 'query' },
    query: listAlertsQuery,
    response: { status: 200, data: alertsResult },
  },
  previewAlert: {
    ...alerts,
    id: 'previewAlert',
    method: 'POST',
    path: '/api/v1/alerts/preview',
    summary: 'Shows how often a rule would have fired in the last 30 days, without saving it.',
    limit: 'queries',
    rights: { of: 'site', in: 'body' },
    body: largeJsonBody(previewAlertBody),
    response: { status: 200, data: alertPreviewResult },
    errors: [404],
  },
  getAlert: {
    ...alerts,
    id: 'getAlert',
    method: 'GET',
    path: '/api/v1/alerts/:rule_id',
    summary: 'Shows an alert rule with its state.',
    limit: 'queries',
    rights: rule,
    response: { status: 200, data: alertResource },
  },
  updateAlert: {
    ...alerts,
    id: 'updateAlert',
    method: 'PUT',
    path: '/api/v1/alerts/:rule_id',
    summary: 'Changes a rule. A changed condition takes effect at the next evaluation.',
    limit: 'admin',
    rights: rule,
    body: largeJsonBody(updateAlertBody),
    response: { status: 200, data: alertResource },
    // 409: two changes at the same time.
    errors: [409],
  },
  deleteAlert: {
    ...alerts,
    id: 'deleteAlert',
    method: 'DELETE',
    path: '/api/v1/alerts/:rule_id',
    summary: 'Deletes a rule with its history. A rule that is firing sends no notification that it resolves.',
    limit: 'admin',
    rights: rule,
    response: { status: 200 },
  },
  listAlertHistory: {
    ...alerts,
    id: 'listAlertHistory',
    method: 'GET',
    path: '/api/v1/alerts/:rule_id/history',
    summary: 'Lists when a rule fired and resolved, newest first, with the results of its notifications.',
    limit: 'queries',
    rights: rule,
    query: pageQuery,
    response: { status: 200, data: alertHistoryResult },
  },
  testAlert: {
    ...alerts,
    id: 'testAlert',
    method: 'POST',
    path: '/api/v1/alerts/:rule_id/test',
    summary: 'Sends a test notification to the rule’s target now, as if the rule fired.',
    limit: 'admin',
    rights: rule,
    body: noFields,
    response: { status: 202, data: alertTestResult },
    idempotent: true,
  },
} as const satisfies Readonly<Record<string, Operation>>
