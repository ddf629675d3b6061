import type { SiteDefaults } from '@sluice/access/sites'
import { type AlertSpec, alertSpecOf } from '@sluice/event-store/alerts/alert-spec'
import { type MeasureOptions, measureOptionsOf } from '@sluice/event-store/alerts/measure-alert'
import type { AlertRule } from '@sluice/postgres/alert-records'

/** A spec with all rules that need its values. */
export interface RuleGroup {
  spec: AlertSpec
  options: MeasureOptions
  rules: AlertRule[]
}

/** Groups rules by equal specs, those with the shortest windows first: they are evaluated soonest. */
export function groupBySpec(
  rules: readonly AlertRule[],
  site: Pick<SiteDefaults, 'conversion_event'> | undefined,
): RuleGroup[] {
  const groups = new Map<string, RuleGroup>()
  for (const rule of rules) {
    const { condition, no_data: noData } = rule.settings
    const spec = alertSpecOf(condition, rule, site?.conversion_event ?? null)
    const { comparesPrevious, distinguishesNoData } = measureOptionsOf({ operator: condition.operator, noData })
    const key = JSON.stringify(spec)
    const known = groups.get(key)
    const options = {
      comparesPrevious: comparesPrevious || (known?.options.comparesPrevious ?? false),
      distinguishesNoData: distinguishesNoData || (known?.options.distinguishesNoData ?? false),
    }
    groups.set(key, { spec, options, rules: [...(known?.rules ?? []), rule] })
  }
  return [...groups.values()].sort((one, other) => one.spec.windowMs - other.spec.windowMs)
}
