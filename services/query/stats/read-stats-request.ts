import type { SiteDefaults } from '@sluice/access/sites'
import type { Environment } from '@sluice/contracts/scopes'
import { filterFields, periods, type StatsParameters } from '@sluice/contracts/stats'
import { type Range, timeZoneId } from '@sluice/event-store/calendar'
import type { StatsSpec } from '@sluice/event-store/stats/spec'
import { invalidField } from '@sluice/runtime/errors'

/** A spec with every field that the response repeats. */
export type RequestedStats = StatsSpec & Required<Pick<StatsSpec, 'timeZone' | 'conditions'>>

/**
 * The spec of validated parameters, with the defaults of their site. `environment` is that of the credential, which the
 * parameters may replace.
 */
export function statsSpecOf(
  parameters: StatsParameters,
  range: Range,
  site: SiteDefaults,
  environment: Environment,
): RequestedStats {
  const { group_by: groupBy, compare } = parameters
  const targetEvent = parameters.target_event ?? site.conversion_event ?? undefined
  return {
    siteId: parameters.site_id,
    metric: parameters.metric,
    ...range,
    ...(groupBy === undefined ? {} : { groupBy }),
    timeZone: timeZoneId(parameters.timezone ?? site.timezone),
    filters: Object.fromEntries(
      filterFields.flatMap((field) => (parameters[field] === undefined ? [] : [[field, parameters[field]]])),
    ),
    conditions: parameters.filter ?? [],
    ...(targetEvent === undefined ? {} : { targetEvent }),
    ...(compare === undefined ? {} : { compare }),
    environment: parameters.environment ?? environment,
    limit: parameters.limit,
    offset: parameters.offset,
    exact: parameters.exact ?? false,
  }
}

/**
 * The range of a request: dates take precedence over the period; a range without an end ends at `now`, one without a
 * start has the length of the period (24 h by default). Throws 400 for an empty range.
 */
export function rangeOf(parameters: Pick<StatsParameters, 'start_date' | 'end_date' | 'period'>, now: number): Range {
  const { start_date: startDate, end_date: endDate, period = '24h' } = parameters
  const end = endDate ?? now
  const start = startDate ?? end - periods[period]
  if (start >= end) {
    throw invalidField('start_date', endDate === undefined ? 'must be before now' : 'must be before end_date')
  }
  return { start, end }
}
