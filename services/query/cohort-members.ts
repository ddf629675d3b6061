import { conditionSql } from '@sluice/clickhouse/conditions'
import type { QueryParams } from '@sluice/clickhouse/client'
import type { Criteria } from '@sluice/contracts/conditions'
import type { Statement, TooMuch } from './ask.ts'
import { type EventScope, inScope, joinUsers, scopeParams } from './event-scope.ts'

/** Which events decide who is in a cohort, and all that is read of it. */
export interface CohortScope extends Pick<EventScope, 'siteId' | 'environment'> {
  /** Unix ms: what is later does not count. */
  now: number
}

/** What a cohort that is too much to be found out is refused with. */
export const tooHeavy = (field: string): TooMuch => ({
  field,
  reason: 'asks for more than one answer may read: ask for fewer conditions or rarer events',
})

/** All events of a site until now. */
export function eventsOf({ siteId, environment, now }: CohortScope): EventScope {
  return { siteId, environment, start: 0, end: now + 1 }
}

/**
 * Who is in a cohort and since when (contract section 6): rows of user_key and entered_ms, Unix ms. Its placeholders
 * are those of `eventsOf` and of the criteria, which begin with `criteria`.
 */
export function membersStatement(criteria: Criteria, scope: CohortScope): Statement {
  const events = eventsOf(scope)
  // Where each condition may be met by another event. Of `or` one is enough: the first event that meets any.
  const isBySeveral = criteria.scope === 'user' && criteria.type === 'and'
  const conditions = isBySeveral
    ? criteria.conditions.map((condition, index) => conditionSql([condition], { prefix: `criteria_${index}` }))
    : [conditionSql(criteria, { prefix: 'criteria' })]
  const firsts = conditions.map((_, index) => `met_${index}`)
  const time = 'toUnixTimestamp64Milli(timestamp)'
  const join = joinUsers(
    events,
    conditions.flatMap(({ userFields }) => userFields),
  )
  // No event is of 1970: 0 is the time of none.
  return {
    sql: `
SELECT user_key, arrayMax([${firsts.join(', ')}]) AS entered_ms
FROM
(
    SELECT
        user_key,
        ${conditions.map(({ sql }, index) => `${isBySeveral ? `minIf(${time}, ${sql})` : `min(${time})`} AS met_${index}`).join(',\n        ')}
    FROM events
    ${join}
    WHERE ${inScope(events)} AND user_key != 0 AND (${conditions.map(({ sql }) => sql).join(' OR ')})
    GROUP BY user_key
    HAVING ${firsts.map((first) => `${first} > 0`).join(' AND ')}
)`,
    params: Object.assign(scopeParams(events), ...conditions.map(({ params }) => params)) as QueryParams,
  }
}
