import { acceptedErasure, createErasureBody, erasureResource } from './erasures.ts'
import { jsonBody, type Operation } from './operation.ts'
import { listOf, pageQuery } from './paging.ts'
import { createSiteBody, siteResource, updateSiteBody } from './sites.ts'

const sites = { section: 'Sites' } as const
const site = { of: 'object', parameter: 'site_id', name: 'Site' } as const

/** The part of operations.ts that is about sites and erasures. */
export const siteOperations = {
  createSite: {
    ...sites,
    id: 'createSite',
    method: 'POST',
    path: '/api/v1/sites',
    summary: 'Registers a site with its settings.',
    scope: 'admin',
    limit: 'admin',
    rights: { of: 'site', in: 'body' },
    body: jsonBody(createSiteBody),
    response: { status: 201, data: siteResource },
    errors: [409],
    idempotent: true,
  },
  listSites: {
    ...sites,
    id: 'listSites',
    method: 'GET',
    path: '/api/v1/sites',
    summary: 'Lists the sites that the key may read, sorted by site_id.',
    scope: 'stats:read',
    limit: 'queries',
    rights: { of: 'list' },
    query: pageQuery,
    response: { status: 200, data: listOf('sites', siteResource) },
  },
  getSite: {
    ...sites,
    id: 'getSite',
    method: 'GET',
    path: '/api/v1/sites/:site_id',
    summary: 'Shows one site.',
    scope: 'stats:read',
    limit: 'queries',
    rights: site,
    response: { status: 200, data: siteResource },
  },
  updateSite: {
    ...sites,
    id: 'updateSite',
    method: 'PUT',
    path: '/api/v1/sites/:site_id',
    summary: 'Changes a site’s settings.',
    scope: 'admin',
    limit: 'admin',
    rights: site,
    body: jsonBody(updateSiteBody),
    response: { status: 200, data: siteResource },
  },
  deleteSite: {
    ...sites,
    id: 'deleteSite',
    method: 'DELETE',
    path: '/api/v1/sites/:site_id',
    summary:
      'Deletes a site. Its cohorts, webhooks, alert rules, imports and exports are deleted at once, its events and users by an erasure.',
    scope: 'admin',
    limit: 'admin',
    rights: site,
    response: { status: 202, data: acceptedErasure },
  },
  createErasure: {
    ...sites,
    id: 'createErasure',
    method: 'POST',
    path: '/api/v1/sites/:site_id/erasures',
    summary: 'Erases permanently the data of a user, of a session, of an event, or of all events before a time.',
    scope: 'admin',
    limit: 'admin',
    rights: site,
    body: jsonBody(createErasureBody),
    response: { status: 202, data: acceptedErasure },
    idempotent: true,
  },
  getErasure: {
    ...sites,
    id: 'getErasure',
    method: 'GET',
    path: '/api/v1/sites/:site_id/erasures/:erasure_id',
    summary: 'Shows the progress of an erasure. This works for a deleted site, too.',
    scope: 'admin',
    limit: 'queries',
    rights: { of: 'object', parameter: 'erasure_id', name: 'Erasure' },
    response: { status: 200, data: erasureResource },
  },
} as const satisfies Readonly<Record<string, Operation>>
