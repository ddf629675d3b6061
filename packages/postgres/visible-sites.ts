import { sql } from 'kysely'
import type { SiteIds } from '@sluice/contracts/scopes'

/** SQL of the condition that a record belongs to one of `siteIds`; `column` holds the record's site. */
export function visibleSiteCondition(siteIds: SiteIds, column: 'site_id' | 'alert_rules.site_id' = 'site_id') {
  return siteIds === null ? sql<boolean>`true` : sql<boolean>`${sql.ref(column)} = ANY (${[...siteIds]}::text[])`
}
