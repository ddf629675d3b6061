import { dayMs } from '@sluice/contracts/time-units'

/**
 * Greatest length of a session in ms. Sessions of a range may have begun this long before it
 * (docs/http-interface.md#stats-sessions).
 */
export const sessionWindowMs = dayMs

/**
 * SQL of a text by which events are ordered: by time, then id. Aggregate functions take half the time for one text as
 * for a tuple. The added number gives all times the same number of digits.
 */
export const eventOrder = `concat(hex(toUInt64(toUnixTimestamp64Milli(timestamp)) + ${2 ** 52}), event_id)`

/**
 * SQL of the join that adds closed_ms: the end (Unix ms) of sessions that continue after their 24 h, 0 for the others.
 */
export function joinOverlongSessions(events: string): string {
  return `
    LEFT JOIN
    (
        SELECT session_key, toUnixTimestamp64Milli(min(timestamp)) + ${sessionWindowMs} AS closed_ms
        FROM events
        WHERE ${events}
        GROUP BY session_key
        HAVING toUnixTimestamp64Milli(max(timestamp)) >= closed_ms
    ) AS long USING (session_key)`
}
