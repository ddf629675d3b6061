import { canonicalTimeZone } from '@sluice/contracts/sites'
import { Temporal } from 'temporal-polyfill'

/** A zone's name as it was given, but for its case; abbreviations that only Intl knows (`PST`) become names. */
export function timeZoneId(name: string): string {
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId
  } catch (error) {
    const canonical = canonicalTimeZone(name)
    if (canonical === undefined) throw error
    return canonical
  }
}

/** Settings of a site as they are kept. */
export function keptSettings<Settings extends { timezone?: string }>(settings: Settings): Settings {
  return settings.timezone === undefined ? settings : { ...settings, timezone: timeZoneId(settings.timezone) }
}
