import { isMet, type Measured } from '@sluice/contracts/alert-state'
import { minuteMs } from '@sluice/contracts/time-units'
import { countsEvents } from '@sluice/event-store/alerts/alert-spec'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertRuleStore, AlertSite } from '@sluice/postgres/alert-rules'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { waitsForWriters } from '../waits-for-writers.ts'
import { type DueRules, evaluateRules, type EvaluateRulesDeps } from './evaluate-rules.ts'

export interface AlertUnitDeps extends EvaluateRulesDeps {
  rules: Pick<AlertRuleStore, 'listEnabled' | 'step' | 'advance'>
  watermarks: Pick<WatermarkStore, 'readCompleteTimes'>
}

/** The pause before the watermark is looked at again. */
const pauseMs = 1_000
/**
 * The watermark normally passes the end of a minute within this time; after that, changes of state that late events
 * can't undo are reported early, and the pause is longer.
 */
const earlyAfterMs = 5_000
const longPauseMs = 3_000
/** The pause after a unit in which ClickHouse did not answer. */
const retryMs = 5_000

/**
 * One unit of a site's alert rules: it evaluates them for the newest minute before which all accepted events can be
 * read (docs/alerts.md). Minutes that passed meanwhile, because no worker ran or writers lagged, are never evaluated.
 *
 * While the writers lag, states do not change, with one exception: a rule fires if its number of events is already
 * greater than its threshold, because late events can only raise it.
 */
export function alertUnit(deps: AlertUnitDeps): (site: AlertSite, lease: Lease) => Promise<UnitResult> {
  const { rules, watermarks, clock } = deps
  /** The last minute for which this process has measured before its end was complete, by site. */
  const lastEarlyMinutes = new Map<string, number>()
  /** A rule of each group that ClickHouse did not answer, by site. */
  const unansweredRules = new Map<string, readonly string[]>()

  function evaluate(dueRules: Pick<DueRules, 'siteId' | 'due' | 'minute' | 'accepts'>, lease: Lease): Promise<boolean> {
    const { siteId } = dueRules
    const unanswered = unansweredRules.get(siteId) ?? []
    const keepUnanswered: DueRules['keepUnanswered'] = (ruleIds) => {
      if (ruleIds.length === 0) unansweredRules.delete(siteId)
      else unansweredRules.set(siteId, ruleIds)
    }
    return evaluateRules(deps, { ...dueRules, unanswered, keepUnanswered }, lease)
  }

  return async ({ siteId, allEvaluatedMinute }, lease) => {
    const now = clock.now()
    // The watermark of the live log is enough: the windows reach back less far than the age from which on events go
    // through the backfill log.
    const { live: completeUntilMs } = await watermarks.readCompleteTimes()
    const newest = startOfMinute(now)
    const complete = Math.min(newest, startOfMinute(completeUntilMs))
    const isDue = allEvaluatedMinute < complete
    const isLate = complete < newest && now - newest >= earlyAfterMs
    const isEarlyDue = isLate && lastEarlyMinutes.get(siteId) !== newest
    const enabled = isDue || isEarlyDue ? await rules.listEnabled(siteId) : []
    // A rule whose evaluation failed is not evaluated again before the next minute.
    const due = isDue ? enabled.filter(({ evaluatedMinute }) => evaluatedMinute < complete) : []
    const log = { minute: complete, rules: due.length }
    const isEvaluated = await evaluate({ siteId, due, minute: complete, accepts: () => true }, lease)
    if (isEvaluated && isDue) await rules.advance(siteId, complete)
    if (isEvaluated && complete === newest) {
      lastEarlyMinutes.delete(siteId)
      return { next: newest + minuteMs, log }
    }
    if (isEarlyDue) {
      lastEarlyMinutes.set(siteId, newest)
      const early = enabled.filter((rule) => rule.evaluatedMinute < newest && staysTrueWithLateEvents(rule))
      await evaluate({ siteId, due: early, minute: newest, accepts: isFulfilled }, lease)
    }
    if (!isEvaluated) return { next: clock.now() + retryMs, log }
    return { next: clock.now() + (isLate ? longPauseMs : pauseMs), log: { ...log, ...waitsForWriters } }
  }
}

function startOfMinute(time: number): number {
  return Math.floor(time / minuteMs) * minuteMs
}

/** Whether a condition that is true stays true when late events arrive. */
function staysTrueWithLateEvents({ settings }: AlertRule): boolean {
  const { metric, operator } = settings.condition
  return countsEvents({ metric }) && (operator === 'greater_than' || operator === 'greater_than_or_equal')
}

function isFulfilled({ settings: { condition } }: AlertRule, measured: Measured): boolean {
  return measured.outcome === 'value' && isMet(condition, measured.value, 0)
}
