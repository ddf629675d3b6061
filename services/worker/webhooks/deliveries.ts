import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { webhookLimits } from '@sluice/contracts/webhooks'
import { type DeliveryQueue, deliveryQueue } from '@sluice/postgres/delivery-queue'
import { type Clock, requireComparedClock } from '@sluice/runtime/clock'
import { poller } from '@sluice/runtime/poller'
import type { WorkerTask } from '../worker-task.ts'
import { deliveryMetrics, disabledEndpoints } from './metrics.ts'
import { deliverySender } from './sender.ts'

const measureMs = 10_000
const removalMs = hourMs
const retentionMs = webhookLimits.deliveryRetentionDays * dayMs
const removalBatchMax = 2_000

/** The deliveries of webhooks and alert rules. */
export const deliveries: WorkerTask = (
  { postgres, outbound, secrets },
  { clock, logger, metrics, leaseMetrics, stopping },
) =>
  deliverySender({
    queue: deliveryQueue(postgres),
    outbound,
    secrets,
    clock,
    logger,
    metrics: deliveryMetrics(metrics),
    leaseMetrics,
    stopping,
  })

/** Measures how long deliveries have been due, and how many receivers are switched off. */
export const deliveryGauges: WorkerTask = ({ postgres }, { clock, metrics, leaseMetrics }) => {
  const queue = deliveryQueue(postgres)
  const disabled = disabledEndpoints(metrics)
  let oldestDueAt: number | undefined
  leaseMetrics.addOldestDue('deliveries', () =>
    oldestDueAt === undefined ? 0 : Math.max(0, clock.now() - oldestDueAt) / 1_000,
  )
  return poller({
    name: 'figures of deliveries',
    intervalMs: measureMs,
    poll: async () => {
      const measuredAt = clock.now()
      try {
        const measured = await queue.measure(measuredAt)
        oldestDueAt = measured.oldestDueAt
        disabled.set(measured.disabled)
      } catch (error) {
        // From now on, all deliveries that become due wait, because the sender uses the same Postgres.
        oldestDueAt ??= measuredAt
        throw error
      }
    },
  })
}

/**
 * Removes deliveries that are older than 30 days, with their attempts. Any number of processes may do so at once. Throws
 * the errors of `requireComparedClock`, and then removes nothing.
 */
export async function removeOldDeliveries(
  queue: Pick<DeliveryQueue, 'removeOld'>,
  clock: Pick<Clock, 'now' | 'isCompared'>,
): Promise<void> {
  requireComparedClock(clock)
  const before = clock.now() - retentionMs
  while ((await queue.removeOld(before, removalBatchMax)) === removalBatchMax);
}

/** Looks for old deliveries every hour. */
export const oldDeliveries: WorkerTask = ({ postgres }, { clock, logger }) =>
  poller({
    name: 'old deliveries',
    intervalMs: removalMs,
    poll: () => removeOldDeliveries(deliveryQueue(postgres), clock),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'removal of old deliveries failed, retrying')
    },
  })
