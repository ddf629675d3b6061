import type { AlertResource } from '@sluice/contracts/alerts'
import { minuteMs } from '@sluice/contracts/time-units'
import { Status } from '../../ui/states.tsx'
import { Ago, useNow } from '../../ui/time.tsx'
import { texts } from './messages.ts'

const kinds = { ok: 'good', firing: 'danger', no_data: 'warn', paused: 'neutral' } as const

/** Rules are evaluated each minute. Later than this, the state says nothing about now. */
const lateMs = 5 * minuteMs

type RuleState = Pick<AlertResource, 'state' | 'enabled' | 'last_error' | 'last_evaluated_at'>

/** The present state of a rule, and whether it is evaluated at all: a rule that is not must not look well. */
export function AlertState({ rule }: { rule: RuleState }) {
  const now = useNow(minuteMs)
  const { enabled, last_error: error, last_evaluated_at: evaluatedAt } = rule
  const state = enabled ? rule.state : 'paused'
  const isLate = enabled && evaluatedAt !== null && now - evaluatedAt > lateMs
  const isEvaluated = !enabled || (error === null && !isLate)
  return (
    <>
      {state === 'ok' && !isEvaluated ? null : <Status kind={kinds[state]}>{texts.states[state]}</Status>}
      {isEvaluated ? null : <Status kind="warn">{texts.notEvaluated}</Status>}
      {isLate ? (
        <span class="muted small">
          {' '}
          {texts.lastEvaluated} <Ago ms={evaluatedAt} />
        </span>
      ) : null}
    </>
  )
}
