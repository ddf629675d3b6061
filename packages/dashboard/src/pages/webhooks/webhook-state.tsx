import type { DeliveryStatus, WebhookResource } from '@sluice/contracts/webhooks'
import { Status } from '../../ui/states.tsx'
import { texts } from './messages.ts'

/** The URL as people read it: empty in an answer when it was encrypted with another key. */
export const urlOf = ({ url }: WebhookResource): string => url || texts.unreadableUrl

type State = keyof typeof texts.states

/** What a webhook does: it sends, fails, or was switched off, by its owner or because its receiver failed. */
export function stateOf({ active, disabled_at: disabledAt, failing_since: failingSince }: WebhookResource): State {
  if (disabledAt !== null) return 'disabled'
  if (!active) return 'paused'
  return failingSince === null ? 'active' : 'failing'
}

const kinds = { active: 'good', paused: 'neutral', failing: 'warn', disabled: 'danger' } as const

export function WebhookState({ webhook }: { webhook: WebhookResource }) {
  const state = stateOf(webhook)
  return <Status kind={kinds[state]}>{texts.states[state]}</Status>
}

const deliveryKinds = { pending: 'busy', succeeded: 'good', failed: 'danger' } as const

export const DeliveryState = ({ status }: { status: DeliveryStatus }) => (
  <Status kind={deliveryKinds[status]}>{texts.statuses[status]}</Status>
)
