import type { SiteRecord } from '@sluice/access/sites'
import type { SiteResource } from '@sluice/contracts/sites'
import type { EventTimeRanges } from '@sluice/event-store/event-time-ranges'

/** Converts a stored site to its form in responses; times are in Unix ms. */
export function toSiteResource({ siteId, settings, createdAt }: SiteRecord, times: EventTimeRanges): SiteResource {
  const { first = null, last = null } = times.get(siteId) ?? {}
  return { site_id: siteId, ...settings, created_at: createdAt, first_event_at: first, last_event_at: last }
}
