import type { AlertResource } from '@sluice/contracts/alerts'
import { minuteMs } from '@sluice/contracts/time-units'
import { Status } from '../../ui/states.tsx'
import { Ago } from '../../ui/time.tsx'
import { texts } from './messages.ts'

const kinds = { ok: 'good', firing: 'danger', no_data: 'warn', paused: 'neutral' } as const

/** Rules are evaluated each minute. Later than this, the state says nothing about now. */
const lateMs = 5 * minuteMs

interface AlertStateProps {
  rule: Pick<AlertResource, 'state' | 'enabled' | 'last_error' | 'last_evaluated_at' | 'updated_at'>
  /** The server's time of the answer that has the rule, Unix ms. A page that was hidden has an old answer. */
  at: number
}

/** The state of a rule, and whether it is evaluated at all: a rule that is not must not look well. */
export function AlertState({ rule, at }: AlertStateProps) {
  const { enabled, last_error: error, last_evaluated_at: evaluatedAt, updated_at: updatedAt } = rule
  const state = enabled ? rule.state : 'paused'
  // A rule that was switched on just now has not been evaluated since it was switched off.
  const isLate = enabled && at - Math.max(evaluatedAt ?? 0, updatedAt) > lateMs
  const isEvaluated = !enabled || (error === null && !isLate)
  return (
    <>
      {state === 'ok' && !isEvaluated ? null : <Status kind={kinds[state]}>{texts.states[state]}</Status>}
      {isEvaluated ? null : <Status kind="warn">{texts.notEvaluated}</Status>}
      {isLate && evaluatedAt !== null ? (
        <span class="muted small">
          {' '}
          {texts.lastEvaluated} <Ago ms={evaluatedAt} />
        </span>
      ) : null}
    </>
  )
}
