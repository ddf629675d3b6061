import type { SiteDefaults } from '@sluice/access/sites'
import { comparesWindows } from '@sluice/contracts/alert-state'
import type { AlertQuestion } from '@sluice/event-store/alerts/alert-question'
import type { MeasureOptions } from '@sluice/event-store/alerts/measure-alert'
import type { AlertRule } from '@sluice/postgres/alert-records'
import { durationMs } from '@sluice/runtime/durations'

/** A question with all rules that ask it. */
export interface AskedQuestion {
  question: AlertQuestion
  options: MeasureOptions
  rules: AlertRule[]
}

/** The question of a rule of a site. */
export function questionOf(
  { siteId, environment, settings }: Pick<AlertRule, 'siteId' | 'environment' | 'settings'>,
  site: Pick<SiteDefaults, 'conversion_event'> | undefined,
): AlertQuestion {
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

/** Groups rules by their questions, those with the shortest windows first: they are answered soonest. */
export function groupByQuestion(
  rules: readonly AlertRule[],
  site: Pick<SiteDefaults, 'conversion_event'> | undefined,
): AskedQuestion[] {
  const asked = new Map<string, AskedQuestion>()
  for (const rule of rules) {
    const question = questionOf(rule, site)
    const { operator } = rule.settings.condition
    const [withPrevious, distinguishesNoData] = [comparesWindows(operator), rule.settings.no_data !== 'zero']
    const key = JSON.stringify(question)
    const known = asked.get(key)
    const options = {
      withPrevious: withPrevious || (known?.options.withPrevious ?? false),
      distinguishesNoData: distinguishesNoData || (known?.options.distinguishesNoData ?? false),
    }
    asked.set(key, { question, options, rules: [...(known?.rules ?? []), rule] })
  }
  return [...asked.values()].sort((one, other) => one.question.windowMs - other.question.windowMs)
}
