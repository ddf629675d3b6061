import type { Metric } from '@sluice/contracts/stats'
import type { StatsQuestion } from './parameters.ts'
import { countRows, eventRows, type Rows, sessionRows } from './rows.ts'

/** A metric as SQL over rows. */
export interface Measure {
  /** Over the rows of one group. */
  whole: string
  /** What a group keeps so that groups can be measured together: distinct counts and shares can't be added up. */
  part: string
  /** Over one column `part`. */
  ofPart: string
  /** Over the column `part` of several groups. */
  ofParts: string
}

/** The rows that answer a question. A source that holds less than events goes here, and says how it counts. */
export function rowsOf(question: StatsQuestion): Rows {
  if (isOfSessions(question.metric)) return sessionRows(question)
  return countRows(question) ?? eventRows(question)
}

function isOfSessions(metric: Metric): boolean {
  return metric === 'avg_session_duration' || metric === 'bounce_rate' || metric === 'conversion_rate'
}

/** How a question's rows are measured. */
export function measureOf({ metric }: StatsQuestion, { count }: Rows): Measure {
  switch (metric) {
    case 'event_count':
    case 'event_count_by_type':
      return { whole: count, part: count, ofPart: 'part', ofParts: 'sum(part)' }
    case 'unique_users':
      return distinct('user_key')
    case 'unique_sessions':
      return distinct('session_key')
    case 'visitors':
      return distinct('visitor_key')
    case 'avg_session_duration':
      return average('duration_ms', (sum, n) => `floor(${sum} / ${n} + 0.5) / 1000`)
    case 'bounce_rate':
      return average('event_count = 1', percent)
    case 'conversion_rate':
      return average('is_converted', percent)
  }
}

/**
 * Of 64-bit keys, 0 being none. Exact, which any answer may be: `uniq` and `uniqCombined64` are not exact up to 65,536
 * (`uniq` hashes to 32 bits and misses one of two such sets by 1 or 2), and `uniq` passes 1 % above.
 */
function distinct(key: string): Measure {
  return aggregate('uniqExactIf', `${key}, ${key} != 0`, (value) => value)
}

/** Percent with 2 decimals, rounded half up. */
const percent: Finish = (part, whole) => `floor(10000 * ${part} / ${whole} + 0.5) / 100`

/** SQL of the value, from that of a sum and a number of rows that is not 0. */
type Finish = (sum: string, count: string) => string

/**
 * Rounding is done here so that groups are sorted by the value that is shown; sum and count are integers, so that the
 * order in which rows are read can't change an answer.
 */
function average(term: string, finish: Finish): Measure {
  return aggregate('sumCount', term, (value) => {
    const [sum, count] = [`tupleElement(${value}, 1)`, `tupleElement(${value}, 2)`]
    return `if(${count} = 0, 0, ${finish(sum, count)})`
  })
}

function aggregate(name: string, over: string, finish: (value: string) => string): Measure {
  return {
    whole: finish(`${name}(${over})`),
    part: `${name}State(${over})`,
    ofPart: finish('finalizeAggregation(part)'),
    ofParts: finish(`${name}Merge(part)`),
  }
}
