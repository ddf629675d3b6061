import type { Actor } from '@sluice/contracts/actors'
import type { FunnelStep } from '@sluice/contracts/funnel'
import { conditionSql } from '../conditions.ts'
import { actorKeys, type EventScope, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import type { Statement } from '../query-runner.ts'

/** A funnel over the events of a scope. */
export interface FunnelSpec extends EventScope {
  steps: readonly FunnelStep[]
  /** Longest time from the event of the first step to that of the last one, in ms. */
  windowMs: number
  of: Actor
}

/** The users that came exactly to one level: the number of steps that they met. */
export interface LevelRow {
  level: number
  users: number
}

/** Units of a millisecond, in which windowFunnel gets its times: each of a user's events has one for each step. */
const unitsPerMs = 2 ** 22
/** At least the most steps of a funnel. */
const unitsPerEvent = 8

/**
 * Selects how many users (or visitors) came to each level: the most steps that a sequence of one user's events meets,
 * with one event for each step, in the order of times and ids, within the window of the first event
 * (docs/http-interface.md#funnel).
 *
 * ClickHouse's windowFunnel computes the level, but takes events of the same time in any order, and one event for
 * several steps. So it gets a time of its own for each step that an event meets, in a finer unit: first by the place
 * among the user's events, then from the last step to the first, which an event can thus not follow itself in. Half of
 * the units stay unused, so that they never move an event into the window or out of it. (`strict_once` keeps every
 * sequence that began: memory and time grow with the power of a user's events.)
 */
export function funnelStatement(spec: FunnelSpec): Statement {
  const { steps, windowMs, of } = spec
  const actorKey = actorKeys[of]
  const conditions = steps.map(({ conditions: filter = [] }, index) => {
    const condition = conditionSql(filter, { prefix: `step_${index}` })
    return { ...condition, sql: `(event_type = {type_${index}:String} AND ${condition.sql})` }
  })
  const met = conditions.map(({ sql }) => `toUInt8(${sql})`).join(', ')
  const units = steps.map((_, index) => steps.length - 1 - index)
  const isOfStep = units.map((unit) => `arrayMap(time -> time % ${unitsPerEvent} = ${unit}, times)`).join(', ')
  const window = `${BigInt(windowMs) * BigInt(unitsPerMs) + BigInt(unitsPerMs / 2)}`
  return {
    // The statement holds the conditions once: one with many parameters travels in form fields, which ClickHouse
    // limits.
    sql: `
WITH arrayFilter((unit, is_met) -> is_met, [${units.join(', ')}], [${met}]) AS met
SELECT level, count() AS users
FROM
(
    SELECT
        arraySort(groupArray((toUnixTimestamp64Milli(timestamp), event_id, met))) AS own,
        arrayFlatten(arrayMap(
            (event, place) -> arrayMap(
                unit -> toUInt64(event.1) * ${unitsPerMs} + least(place, ${unitsPerMs / 2 / unitsPerEvent - 1}) * ${unitsPerEvent} + unit,
                event.3
            ),
            own, arrayEnumerate(own)
        )) AS times,
        arrayReduce('windowFunnel(${window})', times, ${isOfStep}) AS level
    FROM events
    ${joinUsers(
      spec,
      conditions.flatMap(({ userFields }) => userFields),
    )}
    WHERE ${scopeCondition(spec)} AND ${actorKey} != 0
        AND event_type IN (${steps.map((_, index) => `{type_${index}:String}`).join(', ')}) AND notEmpty(met)
    GROUP BY ${actorKey}
)
WHERE level > 0
GROUP BY level`,
    params: Object.assign(
      scopeParams(spec),
      Object.fromEntries(steps.map(({ event_type }, index) => [`type_${index}`, event_type])),
      ...conditions.map(({ params }) => params),
    ) as Statement['params'],
  }
}
