import { collectDefaultMetrics, Registry } from 'prom-client'

export { Counter, Gauge, Histogram } from 'prom-client'
/** The registry that a service's metrics are registered in. */
export type Metrics = Registry

/** Creates a registry with the process's own metrics, to which services add theirs. One per process, passed in, never global. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}
