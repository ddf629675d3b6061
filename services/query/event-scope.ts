import type { QueryParams } from '@sluice/clickhouse/client'
import type { UserField } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'

/** The events that a read is about. */
export interface EventScope {
  siteId: string
  /** Unix ms, inclusive. */
  start: number
  /** Unix ms, exclusive. */
  end: number
  environment: Environment | 'all'
}

/** A condition on rows of `events`, the range being widened by `marginMs` on both sides. */
export function inScope(scope: EventScope, marginMs = 0): string {
  return [ofSite(scope), isBetween(marginMs)].join(' AND ')
}

/** Time zones are whole quarters of an hour from UTC. */
export const quarterMs = 15 * 60_000
/** ClickHouse's DateTime begins in 1970 and ends in 2106. */
const dateTimeEndMs = 2 ** 32 * 1000

/** The whole quarters of a range, from the start of the first to the end of the last (Unix ms); undefined when there are none. */
export function wholeQuarters({
  start,
  end,
}: Pick<EventScope, 'start' | 'end'>): Pick<EventScope, 'start' | 'end'> | undefined {
  const whole = {
    start: Math.max(0, Math.ceil(start / quarterMs) * quarterMs),
    end: Math.floor(end / quarterMs) * quarterMs,
  }
  return whole.start < whole.end && whole.end < dateTimeEndMs ? whole : undefined
}

/** A time outside the whole quarters of the range. */
export const atTheEdges = `(timestamp < toDateTime({first_quarter:UInt32}, 'UTC') OR timestamp >= toDateTime({end_quarter:UInt32}, 'UTC'))`

/** Whether a quarter, given by its start, is one of the whole ones of the range. */
export function isWholeQuarter(quarter: string): string {
  return `${quarter} >= toDateTime({first_quarter:UInt32}, 'UTC') AND ${quarter} < toDateTime({end_quarter:UInt32}, 'UTC')`
}

/**
 * `inScope` as conditions of which each row meets one at most, for reads that need no timestamps: the rows of whole
 * quarters are told by their quarter alone, which costs a tenth (docs/decisions/014-scope-columns.md).
 */
export function scopeParts(scope: EventScope): string[] {
  const whole = wholeQuarters(scope)
  if (whole === undefined) return [inScope(scope)]
  const quarters = [ofSite(scope), `indexHint(${isBetween(0)})`, isWholeQuarter('quarter')].join(' AND ')
  const isAligned = whole.start === scope.start && whole.end === scope.end
  return isAligned ? [quarters] : [quarters, `${inScope(scope)} AND ${atTheEdges}`]
}

/** The primary key finds the rows by `site_id`; of those around the ends of the site's, `site` tells as well and for less. */
export function ofSite({ environment }: Pick<EventScope, 'environment'>): string {
  return [
    'indexHint(site_id = {site_id:String})',
    'site = {site_id:String}',
    ...(environment === 'all' ? [] : ['environment = {environment:String}']),
  ].join(' AND ')
}

/** Times are compared as DateTime64, not as the integers they come as: only so does the primary key cut the range out. */
function isBetween(marginMs: number): string {
  return [
    `timestamp >= fromUnixTimestamp64Milli({start:Int64} - ${marginMs}, 'UTC')`,
    `timestamp < fromUnixTimestamp64Milli({end:Int64} + ${marginMs}, 'UTC')`,
  ].join(' AND ')
}

export function scopeParams({ siteId, start, end, environment }: EventScope): QueryParams {
  const whole = wholeQuarters({ start, end })
  return {
    site_id: siteId,
    start,
    end,
    ...(whole && { first_quarter: whole.start / 1000, end_quarter: whole.end / 1000 }),
    ...(environment === 'all' ? {} : { environment }),
  }
}

/** A condition on the rows of all users of a site, of all times: one that the projection `user_weeks` serves. */
export function userWeeksScope({ environment }: Pick<EventScope, 'environment'>): string {
  return `site_id = {site_id:String} ${environment === 'all' ? '' : 'AND environment = {environment:String}'} AND user_key != 0`
}

/**
 * What a statement on the scope's `events` joins to read these fields of users: what was imported of each in the
 * event's environment. Its placeholders are those of scopeParams.
 */
export function joinUsers({ environment }: EventScope, fields: readonly UserField[]): string {
  if (fields.length === 0) return ''
  const columns = ['environment', 'user_id', ...new Set(fields)].join(', ')
  const ofOne = environment === 'all' ? '' : 'AND environment = {environment:String}'
  return `LEFT JOIN (SELECT ${columns} FROM users FINAL WHERE site_id = {site_id:String} ${ofOne}) AS users USING (environment, user_id)`
}
