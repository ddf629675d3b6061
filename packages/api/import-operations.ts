import {
  acceptedImport,
  createImportBody,
  importErrorsResult,
  importResource,
  importsResult,
  listImportsQuery,
} from './imports.ts'
import { noFields, type Operation } from './operation.ts'
import { pageQuery } from './paging.ts'

const imports = { section: 'Imports', scope: 'events:write' } as const
const imported = { of: 'object', parameter: 'import_id', name: 'Import' } as const

/** The part of operations.ts that is about imports. */
export const importOperations = {
  createImport: {
    ...imports,
    id: 'createImport',
    method: 'POST',
    path: '/api/v1/imports',
    summary:
      'Accepts a file of events, or of users, which needs the scope admin. The answer is 202 once the file is stored and its records are counted.',
    limit: 'admin',
    rights: { of: 'site', in: 'body' },
    body: createImportBody,
    response: { status: 202, data: acceptedImport },
    // 404: the site is unknown, and sites are not registered automatically. 409: the key has as many unfinished imports
    // as it may.
    errors: [404, 409],
  },
  listImports: {
    ...imports,
    id: 'listImports',
    method: 'GET',
    path: '/api/v1/imports',
    summary: 'Lists a site’s imports, newest first. Imports of users are listed only for keys with the scope admin.',
    limit: 'queries',
    rights: { of: 'site', in: 'query' },
    query: listImportsQuery,
    response: { status: 200, data: importsResult },
  },
  getImport: {
    ...imports,
    id: 'getImport',
    method: 'GET',
    path: '/api/v1/imports/:import_id',
    summary: 'Shows the progress of an import.',
    limit: 'queries',
    rights: imported,
    response: { status: 200, data: importResource },
  },
  listImportErrors: {
    ...imports,
    id: 'listImportErrors',
    method: 'GET',
    path: '/api/v1/imports/:import_id/errors',
    summary:
      'Lists the records that failed, sorted by line: a page as JSON, or all records as CSV with Accept: text/csv.',
    limit: 'queries',
    rights: imported,
    query: pageQuery,
    response: { status: 200, data: importErrorsResult, file: ['text/csv'] },
    // The errors of an import that ended long ago.
    errors: [410],
  },
  cancelImport: {
    ...imports,
    id: 'cancelImport',
    method: 'POST',
    path: '/api/v1/imports/:import_id/cancel',
    summary: 'Cancels an import that is not finished. Records that are stored already are kept.',
    limit: 'admin',
    rights: imported,
    body: noFields,
    response: { status: 200, data: importResource },
  },
} as const satisfies Readonly<Record<string, Operation>>
