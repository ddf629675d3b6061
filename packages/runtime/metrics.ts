import { collectDefaultMetrics, type Counter, type Histogram, Registry } from 'prom-client'
import { withDeadline } from './deadline.ts'

export { Counter, Gauge, Histogram } from 'prom-client'
/** The registry that a service's metrics are registered in. */
export type Metrics = Registry

/**
 * Creates a registry with the process's own metrics, to which services add theirs. One per process, passed in, never
 * global.
 */
export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

/**
 * Makes the series of a counter or histogram begin at 0, one for each combination of these values of its labels: an
 * alert on an increase and a panel of a rate would miss the first increment of a series that did not exist before.
 */
export function beginAtZero<Label extends string>(
  metric: Counter<Label> | Histogram<Label>,
  values: Readonly<Record<Label, readonly string[]>>,
): void {
  let series: Partial<Record<Label, string>>[] = [{}]
  for (const label in values)
    series = series.flatMap((labels) => values[label].map((value) => ({ ...labels, [label]: value })))
  for (const labels of series) {
    if ('zero' in metric) metric.zero(labels)
    else metric.inc(labels, 0)
  }
}

/** The time that a scrape waits for an engine, in ms; Prometheus waits for 10 s. */
const engineMsMax = 1_000

/**
 * Makes the reader of a gauge whose value comes from an engine. When the engine fails or does not answer within a
 * second, the reader resolves to the last value, or to undefined before the first. An engine that hangs thus does not
 * keep the other metrics from Prometheus. Only one reading runs at a time.
 */
export function scrapeReader<T>(read: () => Promise<T>, { msMax = engineMsMax } = {}): () => Promise<T | undefined> {
  let last: T | undefined
  let reading: Promise<void> | undefined
  const readOnce = async (): Promise<void> => {
    try {
      last = await read()
    } catch {
      // The last value stays.
    }
  }
  return async () => {
    reading ??= readOnce().finally(() => {
      reading = undefined
    })
    await withDeadline(reading, msMax, () => new Error('the engine is slow')).catch(() => undefined)
    return last
  }
}
