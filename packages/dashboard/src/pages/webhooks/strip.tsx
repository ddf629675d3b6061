import type { DeliveryResource } from '@sluice/contracts/webhooks'
import { texts } from './messages.ts'

const slots = 50

/**
 * The outcomes of the last deliveries, oldest first: short bars succeeded, tall ones failed, those of
 * half the height have failed so far and are tried again, dots wait for their first attempt.
 */
export function Strip({ deliveries }: { deliveries: readonly DeliveryResource[] }) {
  const shown = deliveries.slice(0, slots).toReversed()
  const count = (status: DeliveryResource['status']) => shown.filter((each) => each.status === status).length
  const label = texts.outcomes(count('succeeded'), count('failed'), count('pending'))
  return (
    <span class="strip" role="img" aria-label={label} title={label}>
      {Array.from({ length: slots - shown.length }, (_, at) => (
        <i key={at} />
      ))}
      {shown.map((each) => (
        <i
          key={each.delivery_id}
          class={each.status === 'pending' && each.attempts.length > 0 ? 'retried' : each.status}
        />
      ))}
    </span>
  )
}
