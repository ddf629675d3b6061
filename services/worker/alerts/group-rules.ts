import type { SiteDefaults } from '@sluice/access/sites'
import { comparesWindows } from '@sluice/contracts/alert-state'
import type { AlertSpec } from '@sluice/event-store/alerts/alert-spec'
import type { MeasureOptions } from '@sluice/event-store/alerts/measure-alert'
import type { AlertRule } from '@sluice/postgres/alert-records'
import { durationMs } from '@sluice/runtime/durations'

/** A spec with all rules that need its values. */
export interface RuleGroup {
  spec: AlertSpec
  options: MeasureOptions
  rules: AlertRule[]
}

/** The spec that a rule of a site evaluates. */
export function alertSpecOf(
  { siteId, environment, settings }: Pick<AlertRule, 'siteId' | 'environment' | 'settings'>,
  site: Pick<SiteDefaults, 'conversion_event'> | undefined,
): AlertSpec {
  const { metric, window, event_type: eventType, filter } = settings.condition
  return {
    siteId,
    environment,
    metric,
    windowMs: durationMs(window) ?? 0,
    ...(eventType === undefined ? {} : { eventType }),
    ...(filter === undefined ? {} : { filter }),
    ...(metric === 'conversion_rate' && site?.conversion_event != null ? { targetEvent: site.conversion_event } : {}),
  }
}

/** Groups rules by equal specs, those with the shortest windows first: they are evaluated soonest. */
export function groupBySpec(
  rules: readonly AlertRule[],
  site: Pick<SiteDefaults, 'conversion_event'> | undefined,
): RuleGroup[] {
  const groups = new Map<string, RuleGroup>()
  for (const rule of rules) {
    const spec = alertSpecOf(rule, site)
    const { operator } = rule.settings.condition
    const [withPrevious, distinguishesNoData] = [comparesWindows(operator), rule.settings.no_data !== 'zero']
    const key = JSON.stringify(spec)
    const known = groups.get(key)
    const options = {
      withPrevious: withPrevious || (known?.options.withPrevious ?? false),
      distinguishesNoData: distinguishesNoData || (known?.options.distinguishesNoData ?? false),
    }
    groups.set(key, { spec, options, rules: [...(known?.rules ?? []), rule] })
  }
  return [...groups.values()].sort((one, other) => one.spec.windowMs - other.spec.windowMs)
}
