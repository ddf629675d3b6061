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
export function inScope({ environment }: EventScope, marginMs = 0): string {
  // Times are compared as DateTime64, not as the integers they come as: only so does the primary key cut the range out.
  return [
    'site_id = {site_id:String}',
    `timestamp >= fromUnixTimestamp64Milli({start:Int64} - ${marginMs}, 'UTC')`,
    `timestamp < fromUnixTimestamp64Milli({end:Int64} + ${marginMs}, 'UTC')`,
    ...(environment === 'all' ? [] : ['environment = {environment:String}']),
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
