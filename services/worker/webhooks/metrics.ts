import { notificationTypes } from '@sluice/contracts/alerts'
import { beginAtZero, Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'

/** The metrics of deliveries; docs/webhooks.md says which to watch. */
export interface DeliveryMetrics {
  attempts: Counter<'channel' | 'outcome'>
  /** The delays of first attempts that nobody has requested, at endpoints that are not failing. */
  delaySeconds: Histogram
}

/** Registers the metrics of deliveries. */
export function deliveryMetrics(metrics: Metrics): DeliveryMetrics {
  const registers = [metrics]
  const attempts = new Counter({
    name: 'sluice_worker_delivery_attempts_total',
    help: 'Attempts to deliver: succeeded, failed, or lost, which could not be made or stored and are repeated.',
    labelNames: ['channel', 'outcome'] as const,
    registers,
  })
  beginAtZero(attempts, { channel: notificationTypes, outcome: ['succeeded', 'failed', 'lost'] })
  return {
    attempts,
    delaySeconds: new Histogram({
      name: 'sluice_worker_delivery_delay_seconds',
      help: 'Time from when a delivery was due to its first attempt, without requested ones and those of failing receivers.',
      buckets: [0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1_800],
      registers,
    }),
  }
}

/** Registers the gauge of receivers that are switched off. */
export function disabledEndpoints(metrics: Metrics): Gauge {
  return new Gauge({
    name: 'sluice_worker_endpoints_disabled',
    help: 'Receivers of deliveries that were switched off because they failed.',
    registers: [metrics],
  })
}

/** Registers the gauge of what is not stored with the present key. */
export function endpointsOfOtherKey(metrics: Metrics): Gauge {
  const gauge = new Gauge({
    name: 'sluice_worker_endpoints_other_key',
    help: 'Webhooks and alert rules whose URL or secret is not stored with SLUICE_SECRETS_KEY; absent before they are counted.',
    registers: [metrics],
  })
  // A 0 would say that the former key can be dropped.
  gauge.remove()
  return gauge
}
