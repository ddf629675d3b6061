import { AppError, type ErrorCode } from '@sluice/runtime/errors'
import { beginAtZero, Counter, Gauge, type Metrics } from '@sluice/runtime/metrics'

/** Why events are refused. Requests for which the service has no room are counted as answers of HTTP only. */
const rejections = [
  'missing_field',
  'invalid_field',
  'invalid_format',
  'forbidden',
  'not_found',
  'gone',
  'too_large',
  'rate_limited',
] as const satisfies readonly ErrorCode[]

/** Counts an error when it refuses an event. */
export type CountRejection = (error: unknown) => void

/** Registers the counter of refused events; errors that are no refusal of an event count nothing. */
export function rejectionCounter(metrics: Metrics): CountRejection {
  const counter = new Counter({
    name: 'sluice_events_rejected_total',
    help: 'Events that were refused, alone or in a batch, by reason.',
    labelNames: ['reason'],
    registers: [metrics],
  })
  // Children are looked up once: prom-client would hash the labels for each event of a batch.
  const children = new Map<string, ReturnType<typeof counter.labels>>(
    rejections.map((reason) => [reason, counter.labels({ reason })]),
  )
  beginAtZero(counter, { reason: rejections })
  return (error) => {
    if (error instanceof AppError) children.get(error.code)?.inc()
  }
}

/** Registers how many weaknesses of the log `/readyz` warns of; without a value before they are known. */
export function addDurabilityWarnings(metrics: Metrics, warnings: () => readonly string[] | undefined): void {
  new Gauge({
    name: 'sluice_log_durability_warnings',
    help: 'Reasons why an event with a 202 could still be lost, which /readyz lists; 0 when all is well.',
    registers: [metrics],
    collect() {
      const known = warnings()
      if (known === undefined) this.remove()
      else this.set(known.length)
    },
  })
}
