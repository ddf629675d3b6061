import type { Actor } from '@sluice/contracts/actors'
import type { FunnelStep } from '@sluice/contracts/funnel'
import type { Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { actorKeys, type EventScope, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'

/** A funnel over the events of a scope. */
export interface FunnelSpec extends EventScope {
  steps: readonly FunnelStep[]
  /** Longest time from the event of the first step to that of the last one, in ms. */
  windowMs: number
  of: Actor
}

/** The users whose level is exactly `level`, the number of steps that they met. */
export interface LevelRow {
  level: number
  users: number
}

/**
 * windowFunnel gets its times in this fraction of a millisecond, so that each of a user's events has a different time
 * for each step.
 */
const unitsPerMs = 2 ** 22
/** Not lower than the maximum number of steps of a funnel. */
const unitsPerEvent = 8

/**
 * Selects how many users (or visitors) reached each level: the greatest number of steps that a sequence of one user's
 * events meets, with one event for each step, in the order of times and ids, within the window of the first event
 * (docs/http-interface.md#funnel).
 *
 * ClickHouse's windowFunnel computes the level, but it takes events of equal time in any order, and counts one event
 * for several steps. Therefore each step that an event meets gets a different time, in a unit finer than a millisecond.
 * Within a millisecond, the times are sorted by the event's place among the user's events, then from the last step to
 * the first, so that an event never precedes itself. Half of the units are unused, so that the fine units never move an
 * event into the window or out of it. (The mode `strict_once` keeps every sequence that began: its memory and time grow
 * with a power of the number of a user's events.)
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
    // The statement contains the conditions once: a statement with many parameters is sent in form fields, and
    // ClickHouse limits their size.
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
