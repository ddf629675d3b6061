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

/** What a statement on `events` joins to read these fields of users: imported users, of whom there are none yet. */
export function joinUsers(fields: readonly UserField[]): string {
  if (fields.length === 0) return ''
  const columns = ['user_id', 'email', 'name', 'company', 'plan'].map((name) => `'' AS ${name}`)
  return `LEFT JOIN (SELECT ${columns.join(', ')} WHERE false) AS users USING (user_id)`
}
