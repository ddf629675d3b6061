import joi from 'joi'
import { eventLimits } from './event-fields.ts'
import { text } from './validate.ts'

/** A site's settings (contract section 5). */
export interface SiteSettings {
  name: string
  /** IANA name: where the site's days begin. */
  timezone: string
  /** The `event_type` that `conversion_rate` counts; null: `purchase`. */
  conversion_event: string | null
  /** Events older than this are refused, and deleted; null: kept for ever. */
  retention_days: number | null
}

export interface CreateSiteBody extends Partial<SiteSettings> {
  site_id: string
}

export type UpdateSiteBody = Partial<SiteSettings>

export const siteNameLengthMax = 128
export const retentionDaysMax = 3_650

export const siteId = text(eventLimits.siteIdLengthMax).example('my-site')

const name = text(siteNameLengthMax).example('My site')
const settings = {
  timezone: joi
    .string()
    .custom((value: string, helpers) => (canonicalTimeZone(value) === undefined ? helpers.error('timezone') : value))
    .messages({ timezone: 'must be an IANA time zone, e.g. Europe/Berlin' })
    .meta({ examples: ['Europe/Berlin'] })
    .description('IANA name: where the site’s days begin.'),
  conversion_event: text(eventLimits.eventTypeLengthMax)
    .empty()
    .allow(null)
    .description('The `event_type` that `conversion_rate` counts. Null: `purchase`.'),
  retention_days: joi
    .number()
    .integer()
    .min(1)
    .max(retentionDaysMax)
    .allow(null)
    .description('Older events are refused, and deleted. Null: kept for ever.'),
}

export const createSiteBody = joi.object<CreateSiteBody>({ site_id: siteId.required(), name, ...settings })

export const updateSiteBody = joi.object<UpdateSiteBody>({
  // A site has a name: none at all is a mistake here, not a field left out.
  name: name.empty(),
  ...settings,
})

/** A site as the interface shows it; times are Unix ms, null without events. */
export interface SiteResource extends SiteSettings {
  site_id: string
  created_at: number
  first_event_at: number | null
  last_event_at: number | null
}

export const siteResource = joi
  .object<SiteResource>({
    site_id: joi.string().required(),
    name: joi.string().required(),
    timezone: joi.string().required(),
    conversion_event: joi.string().allow(null).required(),
    retention_days: joi.number().integer().allow(null).required(),
    created_at: joi.number().integer().required(),
    first_event_at: joi.number().allow(null).required().description('Null: it has no event.'),
    last_event_at: joi.number().allow(null).required().description('Null: it has no event.'),
  })
  .id('Site')

/**
 * Intl's main name of a zone that may be named in any case or by an alias (`US/Pacific`); undefined for what is none.
 * Offsets like `+02:00` are none: they know no summer.
 */
export function canonicalTimeZone(name: string): string | undefined {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions()
    return /^[+-]/.test(timeZone) ? undefined : timeZone
  } catch {
    return undefined
  }
}
