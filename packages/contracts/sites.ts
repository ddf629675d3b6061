/** A site's settings (docs/http-interface.md#site-record). */
export interface SiteSettings {
  name: string
  /** IANA name: where the site's days begin. */
  timezone: string
  /** The `event_type` that `conversion_rate` counts; null: `defaultConversionEvent`. */
  conversion_event: string | null
  /** Older events are refused and deleted; null: events are kept for ever. */
  retention_days: number | null
}

/** The event type that `conversion_rate` counts at a site that names no `conversion_event`. */
export const defaultConversionEvent = 'purchase'

export interface CreateSiteBody extends Partial<SiteSettings> {
  site_id: string
}

/** PUT …/{site_id}: absent fields keep their value; `site_id` may be repeated. */
export type UpdateSiteBody = Partial<CreateSiteBody>

/** Code points of a site's name. */
export const siteNameLengthMax = 128

/** Greatest number of days for which a site may keep its events. */
export const retentionDaysMax = 3_650

/** A site in responses; times are Unix ms, null without events. */
export interface SiteResource extends SiteSettings {
  site_id: string
  created_at: number
  first_event_at: number | null
  last_event_at: number | null
}

/** The names of three letters in the IANA database. */
const shortTimeZones = /^(?:CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)$/i

/**
 * Intl's main name of a time zone. The given name may be in any case, or an alias (`US/Pacific`). Undefined for other
 * texts, for offsets like `+02:00`, which have no summer time, and for abbreviations that are not in the IANA database:
 * Intl takes some of them for other zones than their users mean, such as `BST` for Bangladesh.
 */
export function canonicalTimeZone(name: string): string | undefined {
  if (/^[A-Z]{3}$/i.test(name) && !shortTimeZones.test(name)) return undefined
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions()
    return /^[+-]/.test(timeZone) ? undefined : timeZone
  } catch {
    return undefined
  }
}
