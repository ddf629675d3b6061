import { type MeasuredWindow, measuredWindow } from '@sluice/contracts/alert-state'
import { patternsOf, type UserField } from '@sluice/contracts/conditions'
import { isSessionMetric } from '@sluice/contracts/stats'
import { hourMs } from '@sluice/contracts/time-units'
import type { QueryRunner, Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import { distinctKeyOf } from '../metric-keys.ts'
import { timeSql } from '../time-sql.ts'
import { type AlertSpec, countsEvents } from './alert-spec.ts'
import type { MeasureOptions } from './measure-alert.ts'

/** A spec with what its rules need to know. */
export interface BatchedSpec {
  spec: AlertSpec
  options: MeasureOptions
}

/** Longer windows have so many events that a statement of their own, which can use the projections, is faster. */
const windowMsMax = hourMs
/** Filters travel in the URL of the statement. */
const filterCharactersMax = 10_000

/**
 * Whether a spec may be measured together with others of its site: its metric is one of events, its window is short,
 * and its filter has no regular expressions. Their number of steps is limited for each statement.
 */
export function canBeBatched({ metric, windowMs, filter = [] }: AlertSpec): boolean {
  const isFilterLight = JSON.stringify(filter).length <= filterCharactersMax && patternsOf(filter).length === 0
  return !isSessionMetric(metric) && windowMs <= windowMsMax && isFilterLight
}

/**
 * Measures several specs of one site and environment by one statement, which reads the longest of their windows once.
 * Returns for each spec, in their order, what `measureAlert` returns. Throws the errors of the runner.
 */
export async function measureBatch(
  specs: readonly BatchedSpec[],
  end: number,
  runner: QueryRunner,
): Promise<MeasuredWindow[]> {
  const { rows } = await runner.query<Record<string, number>>(combinedStatement(specs, end))
  const row = rows[0] ?? {}
  return specs.map(({ spec, options: { distinguishesNoData } }, index) => {
    const numberOf = (name: string): number => row[`${name}_${index}`] ?? 0
    const hasData = distinguishesNoData && !countsEvents(spec) && numberOf('events') > 0
    return measuredWindow({ value: numberOf('value'), previous: numberOf('previous'), hasData })
  })
}

function combinedStatement(specs: readonly BatchedSpec[], end: number): Statement {
  const [first] = specs
  if (first === undefined) throw new TypeError('there is no spec')
  const { siteId, environment } = first.spec
  const reachMs = Math.max(...specs.map(({ spec, options }) => spec.windowMs * (options.comparesPrevious ? 2 : 1)))
  const scope = { siteId, environment, start: end - reachMs, end }
  const parts = specs.map((each, index) => columnsOf(each, index))
  const userFields = parts.flatMap((part) => part.userFields)
  return {
    sql: `
SELECT ${parts.flatMap(({ columns }) => columns).join(',\n    ')}
FROM events ${joinUsers(scope, userFields)}
WHERE ${scopeCondition(scope)}`,
    params: Object.assign(scopeParams(scope), ...parts.map(({ params }) => params)) as Statement['params'],
  }
}

interface SpecColumns {
  columns: string[]
  params: Statement['params']
  userFields: readonly UserField[]
}

function columnsOf({ spec, options }: BatchedSpec, index: number): SpecColumns {
  const { windowMs, eventType, filter = [] } = spec
  const condition = conditionSql(filter, { prefix: `filter${index}` })
  const matches = [
    ...(filter.length === 0 ? [] : [condition.sql]),
    ...(eventType === undefined ? [] : [`event_type = {event_type_${index}:String}`]),
  ]
  const key = distinctKeyOf(spec)
  const measureOver = (...window: string[]): string => {
    const counted = [...window, ...matches].join(' AND ')
    return key === undefined ? `countIf(${counted})` : `uniqExactIf(${key}, ${key} != 0 AND ${counted})`
  }
  const before = (ms: number): string => timeSql(`{end:Int64} - ${ms}`)
  const inWindow = `timestamp >= ${before(windowMs)}`
  return {
    columns: [
      `${measureOver(inWindow)} AS value_${index}`,
      ...(options.comparesPrevious
        ? [
            `${measureOver(`timestamp >= ${before(2 * windowMs)}`, `timestamp < ${before(windowMs)}`)} AS previous_${index}`,
          ]
        : []),
      ...(options.distinguishesNoData && !countsEvents(spec)
        ? [`countIf(${[inWindow, ...matches].join(' AND ')}) AS events_${index}`]
        : []),
    ],
    params: { ...condition.params, ...(eventType === undefined ? {} : { [`event_type_${index}`]: eventType }) },
    userFields: condition.userFields,
  }
}
