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

const dayMs = 86_400_000
/** ClickHouse's Date begins in 1970 and ends in 2149; so far ahead nothing is asked. */
const dateEndMs = Date.UTC(2100, 0)

/**
 * `inScope` as conditions of which each row meets one at most, for reads that need no timestamps: all rows of the whole days
 * (UTC) of the range are told by their day alone, which costs a tenth (docs/decisions/014-scope-columns.md). One
 * condition when there are no such days.
 */
export function scopeParts(scope: EventScope): [string] | [string, string] {
  const first = Math.ceil(scope.start / dayMs) * dayMs
  const end = Math.floor(scope.end / dayMs) * dayMs
  if (first >= end || first < 0 || end > dateEndMs) return [inScope(scope)]
  const [from, to] = [first, end].map((ms) => `toDate('${new Date(ms).toISOString().slice(0, 10)}')`)
  const isWhole = `day >= ${from ?? ''} AND day < ${to ?? ''}`
  return [
    [ofSite(scope), `indexHint(${isBetween(0)})`, isWhole].join(' AND '),
    [inScope(scope), `(timestamp < ${at(first)} OR timestamp >= ${at(end)})`].join(' AND '),
  ]
}

function at(ms: number): string {
  return `fromUnixTimestamp64Milli(${ms}, 'UTC')`
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
  return {
    site_id: siteId,
    start,
    end,
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
