import type { Metric } from '@sluice/contracts/stats'

/**
 * Returns the best known SQL for a metric of a site over `[start, end)` (Unix ms), written by hand for this table: one
 * statement without filters and groups. Its results are those of the query service, apart from estimates.
 */
export function byHand(metric: Metric, site: string, start: number, end: number): string {
  const [quarter, day] = [900_000, 86_400_000]
  const [from, to] = [Math.ceil(start / quarter) * quarter, Math.floor(end / quarter) * quarter]
  const counted = `
    FROM events WHERE site_id = '${site}' AND environment = 'prod'
      AND toStartOfFifteenMinutes(timestamp) >= toDateTime(${from / 1000}, 'UTC')
      AND toStartOfFifteenMinutes(timestamp) < toDateTime(${to / 1000}, 'UTC')`
  const at = (ms: number): string => `fromUnixTimestamp64Milli(${ms}, 'UTC')`
  const inRange = `site_id = '${site}' AND timestamp >= ${at(start)} AND timestamp < ${at(end)} AND environment = 'prod'`
  const around = `site_id = '${site}' AND timestamp >= ${at(start - day)} AND timestamp < ${at(end + day)} AND environment = 'prod'`
  const edges = `FROM events WHERE ${inRange} AND (timestamp < ${at(from)} OR timestamp >= ${at(to)})`
  const isWhole = `quarter >= toDateTime(${from / 1000}, 'UTC') AND quarter < toDateTime(${to / 1000}, 'UTC')`
  const keys = (key: string): string => `
    (SELECT ${key} AS key FROM events WHERE indexHint(${inRange}) AND site = '${site}' AND environment = 'prod' AND ${isWhole}
     UNION ALL SELECT ${key} ${edges})`
  const isLong = end - start > 90 * 86_400_000
  const distinct = (key: string): string =>
    `SELECT ${isLong ? 'uniqCombined64(19)' : 'uniqExact'}(key) FROM ${keys(key)} WHERE key != 0`
  const sessions = (value: string): string => `
    SELECT ${value} FROM
    (
        SELECT count() AS events, min(timestamp) AS began, toUnixTimestamp64Milli(max(timestamp)) - toUnixTimestamp64Milli(began) AS duration,
               countIf(event_type = 'purchase') > 0 AS converted
        FROM events WHERE ${around} AND session_key != 0 ${isLong ? 'AND session_key % 16 = 0' : ''}
        GROUP BY session_key HAVING began >= ${at(start)} AND began < ${at(end)}
    )`
  switch (metric) {
    case 'event_count':
      return `SELECT sum(events) FROM (SELECT count() AS events ${counted} UNION ALL SELECT count() ${edges})`
    case 'event_count_by_type':
      return `SELECT event_type, sum(events) FROM (SELECT event_type, count() AS events ${counted} GROUP BY event_type
              UNION ALL SELECT event_type, count() ${edges} GROUP BY event_type) GROUP BY event_type`
    case 'unique_users':
      return distinct('user_key')
    case 'unique_sessions':
      return distinct('session_key')
    case 'visitors':
      return distinct('visitor_key')
    case 'avg_session_duration':
      return sessions('avg(duration)')
    case 'bounce_rate':
      return sessions('avg(events = 1)')
    case 'conversion_rate':
      return sessions('avg(converted)')
  }
}
