import joi from 'joi'
import { eventLimits } from '@sluice/contracts/event-limits'
import {
  canonicalTimeZone,
  type CreateSiteBody,
  retentionDaysMax,
  siteNameLengthMax,
  type SiteResource,
  type UpdateSiteBody,
} from '@sluice/contracts/sites'
import { nameText, text } from '@sluice/runtime/schemas'
import { timeOrNull } from './times.ts'

export const siteId = text(eventLimits.siteIdLengthMax).example('my-site')

/** The `site_id` in an update of a record that belongs to a site. */
export const repeatedSiteId = text(eventLimits.siteIdLengthMax)
  .empty()
  .description('Optional; must equal the present site, which can’t be changed.')

const name = nameText(siteNameLengthMax).example('My site')

const settings = {
  timezone: joi
    .string()
    .custom((value: string, helpers) => (canonicalTimeZone(value) === undefined ? helpers.error('timezone') : value))
    .messages({ timezone: 'must be an IANA time zone, e.g. Europe/Berlin' })
    .meta({ examples: ['Europe/Berlin'] })
    .description('IANA name of the time zone in which the site’s days begin.'),
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
    .description(
      'Number of days. Older events are refused, and stored events are deleted when they are older. Null: events are kept for ever.',
    ),
}

export const createSiteBody = joi.object<CreateSiteBody>({ site_id: siteId.required(), name, ...settings })

export const updateSiteBody = joi.object<UpdateSiteBody>({
  site_id: repeatedSiteId,
  // A site always has a name: `null` and `""` are invalid here instead of absent.
  name: name.empty(),
  ...settings,
})

export const siteResource = joi
  .object<SiteResource>({
    site_id: joi.string().required(),
    name: joi.string().required(),
    timezone: joi.string().required(),
    conversion_event: joi.string().allow(null).required(),
    retention_days: joi.number().integer().allow(null).required(),
    created_at: joi.number().integer().required(),
    first_event_at: timeOrNull.description('Null: the site has no events.'),
    last_event_at: timeOrNull.description('Null: the site has no events.'),
  })
  .id('Site')
