import type { AlertCondition } from '@sluice/contracts/alerts'
import type { Filter } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { Metric } from '@sluice/contracts/stats'
import { durationMs } from '@sluice/runtime/durations'
import { sessionWindowMs } from '../session-sql.ts'

/** The metric that an alert rule measures over the window that ends with a minute, and the events that count. */
export interface AlertSpec {
  siteId: string
  environment: Environment | 'all'
  metric: Metric
  /** Whole minutes, in ms. */
  windowMs: number
  /** Only events of this type; for metrics of sessions: sessions with such an event. */
  eventType?: string | undefined
  filter?: Filter | undefined
  /** The event type that `conversion_rate` counts; `purchase` by default. */
  targetEvent?: string | undefined
}

/**
 * The spec that a rule with this condition evaluates. `conversionEvent` is the one of the site's settings; null stands
 * for the default.
 */
export function alertSpecOf(
  { metric, window, event_type: eventType, filter }: AlertCondition,
  { siteId, environment }: Pick<AlertSpec, 'siteId' | 'environment'>,
  conversionEvent: string | null,
): AlertSpec {
  return {
    siteId,
    environment,
    metric,
    windowMs: durationMs(window) ?? 0,
    eventType,
    filter,
    // Only this metric depends on the site's conversion event. Equal rules of other metrics get equal specs.
    targetEvent: metric === 'conversion_rate' ? (conversionEvent ?? undefined) : undefined,
  }
}

/** Whether the metric is a number of events, which late events can only raise. */
export function countsEvents({ metric }: Pick<AlertSpec, 'metric'>): boolean {
  return metric === 'event_count' || metric === 'event_count_by_type'
}

/**
 * The answer depends on events up to this many ms before the end of the window: on those of the window, of the previous
 * window that it may be compared with, and of the time in which a session may have begun.
 */
export function readsBeforeMs({ windowMs }: Pick<AlertSpec, 'windowMs'>): number {
  return 2 * windowMs + sessionWindowMs
}
