import { timeZoneId } from '@sluice/event-store/calendar'

/** Converts the settings of a request to those that are stored, with the time zone in its usual spelling. */
export function storedSettings<Settings extends { timezone?: string }>(settings: Settings): Settings {
  return settings.timezone === undefined ? settings : { ...settings, timezone: timeZoneId(settings.timezone) }
}
