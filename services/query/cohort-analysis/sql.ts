import type { Criteria } from '@sluice/contracts/conditions'
import type { Statement } from '../ask.ts'
import { type CohortScope, eventsOf, membersStatement } from '../cohort-members.ts'
import { inScope } from '../event-scope.ts'

export interface AnalysisQuestion extends CohortScope {
  criteria: Criteria
  /** At most 64: they are the bits of a number. */
  weeks: number
}

/** Members of a cohort whose first so many weeks are over. */
export interface AgeRow {
  /** At most the question's weeks. */
  weeks_over: number
  users: number
  /** By week from the entry, how many of them had an event in it. */
  returned: number[]
}

const weekMs = 7 * 86_400_000

/** Members by how many of their weeks are over. The events are read twice: for who is in, and for what they did then. */
export function analysisStatement(question: AnalysisQuestion): Statement {
  const { criteria, weeks, now } = question
  const members = membersStatement(criteria, question)
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
    WHERE ${inScope(eventsOf(question))}
      AND ${time} >= members.entered_ms AND ${time} < members.entered_ms + ${weeks * weekMs}
    GROUP BY user_key
)
GROUP BY weeks_over`,
    params: { ...members.params, now },
  }
}
