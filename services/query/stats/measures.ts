import type { Metric } from '@sluice/contracts/stats'
import type { StatsQuestion } from './parameters.ts'
import { countRows, eventRows, keyOf, type Rows, type SessionPlan, sessionRows } from './rows.ts'

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

/** A question, and how it is answered. */
export interface PlannedQuestion extends StatsQuestion {
  /** Of metrics of sessions; all of them, however long, unless said otherwise. */
  sessions?: SessionPlan
}

/** The rows that answer a question. A source that holds less than events goes here, and says how it counts. */
export function rowsOf(question: PlannedQuestion): Rows {
  if (isOfSessions(question.metric)) return sessionRows(question, question.sessions ?? { oneOf: 1, mayBeLong: true })
  return countRows(question) ?? eventRows(question)
}

export function isOfSessions(metric: Metric): boolean {
  return metric === 'avg_session_duration' || metric === 'bounce_rate' || metric === 'conversion_rate'
}

/** How a question's rows are measured. */
export function measureOf({ metric, groupBy, exact }: StatsQuestion, { count }: Rows): Measure {
  switch (metric) {
    case 'event_count':
    case 'event_count_by_type':
      return { whole: count, part: count, ofPart: 'part', ofParts: 'sum(part)' }
    case 'unique_users':
    case 'unique_sessions':
    case 'visitors': {
      const measure = distinct(keyOf[metric])
      return groupBy === undefined && !exact ? { ...measure, whole: estimate(keyOf[metric]) } : measure
    }
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

/**
 * As `distinct`, but above 65,536 within 0.3 % and in half the time or less. Of buckets and groups it would take twice as
 * long, so they are exact.
 */
function estimate(key: string): string {
  const [of, exactMax] = [`${key}, ${key} != 0`, 65_536]
  const keys = `groupUniqArrayIf(${exactMax + 1})(${of})`
  return `if(length(${keys}) <= ${exactMax}, length(${keys}), uniqCombined64If(19)(${of}))`
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
