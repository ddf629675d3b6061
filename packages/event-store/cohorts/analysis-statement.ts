import type { Criteria } from '@sluice/contracts/conditions'
import { weekMs } from '@sluice/contracts/time-units'
import type { Statement } from '../clickhouse/query-runner.ts'
import { scopeCondition } from '../event-scope.ts'
import { type CohortScope, eventsOf, membersStatement } from './members.ts'

export interface CohortAnalysisSpec extends CohortScope {
  criteria: Criteria
  /** At most 64: they are the bits of a number. */
  weeks: number
}

/** The members of a cohort that have had the same number of whole weeks since their entry. */
export interface AgeRow {
  /** Whole weeks since the entry, at most the `weeks` of the spec. */
  weeks_over: number
  users: number
  /** For each week from the entry, the number of users that had an event in it. */
  returned: number[]
}

/**
 * Selects the members by the number of weeks since their entry. The events are read twice: once to find the members,
 * and once for the members' activity after the entry.
 */
export function analysisStatement(spec: CohortAnalysisSpec): Statement {
  const { criteria, weeks, now } = spec
  const members = membersStatement(criteria, spec)
  const time = 'toUnixTimestamp64Milli(timestamp)'
  return {
    sql: `
SELECT
    least(intDiv({now:Int64} - entered_ms, ${weekMs}), ${weeks}) AS weeks_over,
    count() AS users,
    sumForEach(arrayMap(week -> bitTest(active, week), range(${weeks}))) AS returned
FROM
(
    SELECT
        user_key,
        any(members.entered_ms) AS entered_ms,
        groupBitOr(bitShiftLeft(toUInt64(1), toUInt8(intDiv(${time} - members.entered_ms, ${weekMs})))) AS active
    FROM events
    INNER JOIN (${members.sql}) AS members USING (user_key)
    WHERE ${scopeCondition(eventsOf(spec))}
      AND ${time} >= members.entered_ms AND ${time} < members.entered_ms + ${weeks * weekMs}
    GROUP BY user_key
)
GROUP BY weeks_over`,
    params: { ...members.params, now },
  }
}
