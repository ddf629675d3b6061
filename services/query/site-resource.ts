import type { SiteResource } from '@sluice/contracts/sites'
import type { SiteRecord } from '@sluice/postgres/sites'
import type { EventTimes } from './event-times.ts'

/** A site as the interface shows it. */
export function toSiteResource({ siteId, settings, createdAt }: SiteRecord, times: EventTimes): SiteResource {
  const { first = null, last = null } = times.get(siteId) ?? {}
  return { site_id: siteId, ...settings, created_at: createdAt.getTime(), first_event_at: first, last_event_at: last }
}
