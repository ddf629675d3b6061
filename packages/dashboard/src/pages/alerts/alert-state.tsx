import type { AlertResource } from '@sluice/contracts/alerts'
import { Status } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const kinds = { ok: 'good', firing: 'danger', no_data: 'warn', paused: 'neutral' } as const

/** The present state of a rule. */
export function AlertState({ rule }: { rule: Pick<AlertResource, 'state' | 'enabled'> }) {
  const state = rule.enabled ? rule.state : 'paused'
  return <Status kind={kinds[state]}>{texts.states[state]}</Status>
}
