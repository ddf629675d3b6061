import { pageDefaults } from '@sluice/contracts/paging'

/** The query of all sites: one object, so that all lists of sites share an entry of the cache. */
export const allSitesQuery = { query: { limit: pageDefaults.limitMax } }
