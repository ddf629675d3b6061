import { exportMediaTypes } from '@sluice/contracts/export-files'
import {
  createExportBody,
  exportResource,
  exportRunsResult,
  exportsResult,
  listExportsQuery,
  updateExportBody,
} from './exports.ts'
import { jsonBody, largeJsonBody, type Operation } from './operation.ts'
import { pageQuery } from './paging.ts'

/** Exports of events, sessions and stats need the first scope, those of users and cohorts the other. */
const exports = { section: 'Exports', scope: 'stats:read', alternativeScope: 'cohorts:read' } as const
const exported = { of: 'object', parameter: 'export_id', name: 'Export' } as const

/** The part of operations.ts that is about exports. */
export const exportOperations = {
  createExport: {
    ...exports,
    id: 'createExport',
    method: 'POST',
    path: '/api/v1/exports',
    summary:
      'Writes events, users, sessions, statistics or a cohort to a file in the background, once or on a schedule.',
    limit: 'admin',
    rights: { of: 'site', in: 'body' },
    body: largeJsonBody(createExportBody),
    response: { status: 202, data: exportResource },
    // 404: the cohort is unknown, or the site is, and sites are not registered automatically.
    errors: [404],
    idempotent: true,
  },
  listExports: {
    ...exports,
    id: 'listExports',
    method: 'GET',
    path: '/api/v1/exports',
    summary: 'Lists the exports and schedules of a site whose types the key may read, newest first.',
    limit: 'queries',
    rights: { of: 'site', in: 'query' },
    query: listExportsQuery,
    response: { status: 200, data: exportsResult },
  },
  getExport: {
    ...exports,
    id: 'getExport',
    method: 'GET',
    path: '/api/v1/exports/:export_id',
    summary: 'Shows the progress of an export.',
    limit: 'queries',
    rights: exported,
    response: { status: 200, data: exportResource },
  },
  updateExport: {
    ...exports,
    id: 'updateExport',
    method: 'PUT',
    path: '/api/v1/exports/:export_id',
    summary: 'Renames an export, or changes or pauses its schedule.',
    limit: 'admin',
    rights: exported,
    body: jsonBody(updateExportBody),
    response: { status: 200, data: exportResource },
  },
  deleteExport: {
    ...exports,
    id: 'deleteExport',
    method: 'DELETE',
    path: '/api/v1/exports/:export_id',
    summary: 'Deletes an export with its file, even before it is finished, or a schedule with its runs.',
    limit: 'admin',
    rights: exported,
    response: { status: 200 },
  },
  listExportRuns: {
    ...exports,
    id: 'listExportRuns',
    method: 'GET',
    path: '/api/v1/exports/:export_id/runs',
    summary: 'Lists the runs of a schedule, newest first. Each run is an export of its own.',
    limit: 'queries',
    rights: exported,
    query: pageQuery,
    response: { status: 200, data: exportRunsResult },
  },
  downloadExport: {
    ...exports,
    id: 'downloadExport',
    method: 'GET',
    path: '/api/v1/exports/:export_id/download',
    summary:
      'Sends the file of an export; for a schedule, that of its latest completed run. Until the file is ready, the answer is 409 with Retry-After.',
    limit: 'queries',
    rights: exported,
    response: { status: 200, file: exportMediaTypes },
    errors: [409, 410],
  },
} as const satisfies Readonly<Record<string, Operation>>
