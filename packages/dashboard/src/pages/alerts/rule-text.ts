import type { AlertCondition } from '@sluice/contracts/alerts'
import { formatExact, kindOf, type NumberKind } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { texts } from './messages.ts'
import { percentOperators } from './operators.ts'

/** How the values of a condition's threshold are written. */
export const thresholdKind = ({ metric, operator }: Pick<AlertCondition, 'metric' | 'operator'>): NumberKind =>
  percentOperators.includes(operator) ? 'percent' : kindOf(metric)

/** A condition in words: `Events (purchase) is less than 1 in 10m`. */
export function conditionText(condition: AlertCondition): string {
  const { metric, operator, threshold, window, event_type: type } = condition
  const what = type === undefined ? messages.metrics[metric] : `${messages.metrics[metric]} (${type})`
  return texts.sentenceOf(
    what,
    texts.operators[operator].replace(/^is /, ''),
    formatExact(threshold, thresholdKind(condition)),
    window,
  )
}
