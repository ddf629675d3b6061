import { distinctKeyColumns } from '../metric-keys.ts'
import { type SessionMetricSql, sessionMetricSql } from '../session-metrics.ts'
import type { RowSource } from './row-sources.ts'
import type { StatsPlan } from './spec.ts'

/** SQL of a metric. */
export interface MetricSql {
  /** The value over the rows of one group. */
  aggregate: string
  /** Whether `aggregate` is an estimate; absent when it never is. */
  estimated?: string
  /**
   * SQL of the aggregate function's state for one group. The states of several groups can be combined into one value.
   * The values of distinct counts and shares can't be added up.
   */
  state: string
  /** The value of one state, the column `part`. */
  fromState: string
  /** The value over the states of several groups, the column `part`. */
  fromStates: string
  /** Whether `fromStates` is an estimate; absent when it never is. */
  estimatedFromStates?: string
  /** Standard deviation of the term whose mean or share is the value, in the unit of the value. */
  deviation?: string
}

/** Builds the SQL of a plan's metric over its rows. */
export function metricSql({ metric, exact }: StatsPlan, { count }: RowSource): MetricSql {
  switch (metric) {
    case 'event_count':
    case 'event_count_by_type':
      return { aggregate: count, state: count, fromState: 'part', fromStates: 'sum(part)' }
    case 'unique_users':
    case 'unique_sessions':
    case 'visitors':
      return exact ? distinctCount(distinctKeyColumns[metric]) : estimatedCount(distinctKeyColumns[metric])
    case 'avg_session_duration':
    case 'bounce_rate':
    case 'conversion_rate':
      return average(sessionMetricSql[metric])
  }
}

/** Counts distinct 64-bit keys other than 0 exactly. */
function distinctCount(key: string): MetricSql {
  return combinable('uniqExactIf', `${key}, ${key} != 0`, (value) => value)
}

/** At most this many distinct values are counted exactly (docs/http-interface.md#precision). */
const exactCountMax = 65_536

/**
 * Counts like `distinctCount` up to 65,536 keys. Above that, it estimates with a standard error of 0.3 % and needs no
 * set of all keys: building and merging such sets takes most of the time (docs/decisions/031-grouped-answers.md). The
 * set of the first 65,537 keys makes smaller counts exact. `uniq` and `uniqCombined64` alone are not exact there:
 * `uniq` hashes to 32 bits and misses 1 or 2 keys in every second set of 65,536. For larger counts, the error of `uniq`
 * exceeds 1 %.
 */
function estimatedCount(key: string): MetricSql {
  const args = `(${key}, ${key} != 0)`
  const first = (suffix = '') => `groupUniqArrayIf${suffix}(${exactCountMax + 1})`
  const all = (suffix = '') => `uniqCombined64If${suffix}(17)`
  const [firstPart, allPart] = ['tupleElement(part, 1)', 'tupleElement(part, 2)']
  const isEstimated = (keys: string) => `length(${keys}) > ${exactCountMax}`
  const value = (keys: string, estimate: string) => `if(${isEstimated(keys)}, ${estimate}, length(${keys}))`
  return {
    aggregate: value(`${first()}${args}`, `${all()}${args}`),
    estimated: isEstimated(`${first()}${args}`),
    state: `(${first('State')}${args}, ${all('State')}${args})`,
    fromState: value(`finalizeAggregation(${firstPart})`, `finalizeAggregation(${allPart})`),
    fromStates: value(`${first('Merge')}(${firstPart})`, `${all('Merge')}(${allPart})`),
    estimatedFromStates: isEstimated(`${first('Merge')}(${firstPart})`),
  }
}

/**
 * SQL of a value that is computed from a sum and a number of rows that is not 0. The value is rounded in SQL, so that
 * groups are sorted by the value that is shown. Sum and count are integers, so that the value does not depend on the
 * order in which ClickHouse reads the rows.
 */
function average({ term, valueSql, unit }: SessionMetricSql): MetricSql {
  const sql = combinable('sumCount', term, (pair) => {
    const [sum, count] = [`tupleElement(${pair}, 1)`, `tupleElement(${pair}, 2)`]
    return `if(${count} = 0, 0, ${valueSql(sum, count)})`
  })
  return { ...sql, deviation: `stddevPopStable(${term}) * ${unit}` }
}

/**
 * SQL with an aggregate function whose states can be combined. `valueSql` computes the value from the function's
 * result.
 */
function combinable(name: string, args: string, valueSql: (result: string) => string): MetricSql {
  return {
    aggregate: valueSql(`${name}(${args})`),
    state: `${name}State(${args})`,
    fromState: valueSql('finalizeAggregation(part)'),
    fromStates: valueSql(`${name}Merge(part)`),
  }
}
