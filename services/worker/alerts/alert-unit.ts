import type { SiteStore } from '@sluice/access/sites'
import { isMet, type Measured } from '@sluice/contracts/alert-state'
import { alertLimits } from '@sluice/contracts/alerts'
import { minuteMs } from '@sluice/contracts/time-units'
import { countsEvents } from '@sluice/event-store/alerts/alert-spec'
import type { QueryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { Evaluation } from '@sluice/postgres/alert-evaluations'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertRuleStore, AlertSite } from '@sluice/postgres/alert-rules'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { groupBySpec, type RuleGroup } from './group-rules.ts'
import { measureRuleGroup, measureRuleGroups } from './measure-rule-groups.ts'
import type { AlertMetrics } from './metrics.ts'

export interface AlertUnitDeps {
  rules: Pick<AlertRuleStore, 'listEnabled' | 'evaluate' | 'advance'>
  sites: Pick<SiteStore, 'find'>
  watermarks: Pick<WatermarkStore, 'completeUntil'>
  reader: Pick<QueryReader, 'as'>
  clock: Pick<Clock, 'now'>
  metrics: AlertMetrics
}

/** The pause before the watermark is looked at again. */
const waitMs = 1_000
/**
 * The watermark normally passes the end of a minute within this time; after that, changes of state that late events
 * can't undo are reported early.
 */
const earlyAfterMs = 5_000
/** Evaluations are stored after this long, although other specs of the site are not measured yet. */
const storeEveryMs = 1_000
/** The pause after a unit in which ClickHouse did not answer. */
const retryMs = 5_000
/** After so many groups in a row that ClickHouse does not answer, the other groups of the unit are not measured. */
const unansweredMax = 2
/** The error of a rule that ClickHouse did not answer although it answered others. */
const unansweredText = 'The condition was not answered in time: choose a shorter window, or a filter with fewer events'

/**
 * One unit of a site's alert rules: it evaluates them for the newest minute before which all accepted events can be
 * read (docs/alerts.md). Minutes that passed meanwhile, because no worker ran or writers lagged, are never evaluated.
 *
 * If ClickHouse does not answer for a group, because its statement needs more than the server has, the other groups are
 * still evaluated. From then on that group is measured last. It counts as failed when other groups were answered.
 *
 * While the writers lag, states do not change, with one exception: a rule fires if its number of events is already
 * greater than its threshold, because late events can only raise it.
 */
export function alertUnit(deps: AlertUnitDeps): (site: AlertSite, lease: Lease) => Promise<UnitResult> {
  const { rules, sites, watermarks, reader, clock, metrics } = deps
  /** The last minute for which this process has measured before its end was complete, by site. */
  const lastEarlyMinutes = new Map<string, number>()
  /** For each site, a rule of each group that ClickHouse did not answer. The group that waits longest comes first. */
  const unansweredRules = new Map<string, readonly string[]>()

  return async ({ siteId, allEvaluatedMinute }, lease) => {
    const now = clock.now()
    // The watermark of the live log is enough: the windows reach back less far than the age from which on events go
    // through the backfill log.
    const { live: completeUntil } = await watermarks.completeUntil()
    const newest = startOfMinute(now)
    const complete = Math.min(newest, startOfMinute(completeUntil))
    const isEarlyDue = complete < newest && now - newest >= earlyAfterMs && lastEarlyMinutes.get(siteId) !== newest
    const enabled = await rules.listEnabled(siteId)
    // A rule whose evaluation failed is not evaluated again before the next minute.
    const due = allEvaluatedMinute < complete ? enabled.filter(({ evaluatedMinute }) => evaluatedMinute < complete) : []
    const evaluator = evaluatorOf(siteId, lease)
    const log = { minute: complete, rules: due.length }
    const isEvaluated = await evaluator.run(due, complete, () => true)
    if (isEvaluated && allEvaluatedMinute < complete) await rules.advance(siteId, complete)
    if (isEvaluated && complete === newest) {
      lastEarlyMinutes.delete(siteId)
      return { next: newest + minuteMs, log }
    }
    if (isEarlyDue) {
      lastEarlyMinutes.set(siteId, newest)
      const early = enabled.filter((rule) => rule.evaluatedMinute < newest && staysTrueWithLateEvents(rule))
      await evaluator.run(early, newest, isFulfilled)
    }
    if (!isEvaluated) return { next: clock.now() + retryMs, log }
    return { next: clock.now() + waitMs, log: { ...log, waits: 'for the writers' } }
  }

  function evaluatorOf(siteId: string, lease: Lease) {
    const runner = reader.as({ key: `alerts ${siteId}`, signal: lease.signal, priority: 'background' })

    /**
     * Evaluates the rules whose measurements `accepts` accepts. Returns false when ClickHouse did not answer and some
     * rules are to be measured again soon.
     */
    async function run(
      due: readonly AlertRule[],
      minute: number,
      accepts: (rule: AlertRule, measured: Measured) => boolean,
    ): Promise<boolean> {
      if (due.length === 0) return true
      const site = await sites.find(siteId)
      let evaluations: Evaluation[] = []
      let storeAt = clock.now() + storeEveryMs
      const store = async (): Promise<void> => {
        const evaluated = await rules.evaluate(minute, evaluations, clock.now())
        for (const { transition } of evaluated) if (transition) metrics.transitions.inc({ to: transition.to })
        evaluations = []
        storeAt = clock.now() + storeEveryMs
      }
      const evaluateGroup = (group: RuleGroup, measured: Pick<Evaluation, 'measured' | 'error'>): void => {
        const evaluated = group.rules.filter((rule) => accepts(rule, measured.measured))
        evaluations.push(...evaluated.map(({ ruleId, revision }) => ({ ruleId, revision, ...measured })))
      }
      const known = unansweredRules.get(siteId) ?? []
      const { usual, last } = splitUnanswered(groupBySpec(due, site?.settings), known)
      const groups = [...usual, ...last]
      const unansweredGroups: RuleGroup[] = []
      let [tried, answered, unansweredInRow] = [0, 0, 0]
      const batched = await measureRuleGroups(usual, minute, runner, metrics)
      for (const group of groups) {
        if (unansweredInRow === unansweredMax) break
        const measured = batched.get(group) ?? (await measureRuleGroup(group, minute, runner, metrics))
        lease.signal.throwIfAborted()
        tried += 1
        if (measured === 'unanswered') {
          unansweredGroups.push(group)
          unansweredInRow += 1
          continue
        }
        unansweredInRow = 0
        answered += 1
        evaluateGroup(group, measured)
        if (clock.now() >= storeAt) await store()
      }
      // Groups that were tried now are measured after the others the next time.
      const unanswered = [...groups.slice(Math.max(tried, usual.length)), ...unansweredGroups]
      // An early pass covers only some of the site's rules; keep the unanswered marks of the rest.
      const ofOthers = known.filter((id) => due.every(({ ruleId }) => ruleId !== id))
      const ids = [...ofOthers, ...unanswered.flatMap(({ rules: [rule] }) => rule?.ruleId ?? [])]
      if (ids.length === 0) unansweredRules.delete(siteId)
      else unansweredRules.set(siteId, ids.slice(-alertLimits.rulesPerSiteMax))
      const areUsualTried = tried >= usual.length
      // ClickHouse answered other groups, so the conditions of these groups need too much.
      if (answered > 0)
        for (const group of areUsualTried ? unanswered : unansweredGroups)
          evaluateGroup(group, { measured: { outcome: 'failed' }, error: unansweredText })
      await store()
      return areUsualTried && (answered > 0 || unanswered.length === 0)
    }

    return { run }
  }
}

/**
 * Splits the groups into those without one of these rules, and those with one, in the order of the rules. The latter
 * are to be measured last.
 */
function splitUnanswered(
  groups: readonly RuleGroup[],
  ruleIds: readonly string[] = [],
): { usual: readonly RuleGroup[]; last: readonly RuleGroup[] } {
  const placeOf = ({ rules }: RuleGroup) => ruleIds.findIndex((id) => rules.some(({ ruleId }) => ruleId === id))
  return {
    usual: groups.filter((group) => placeOf(group) === -1),
    last: groups.filter((group) => placeOf(group) !== -1).sort((one, other) => placeOf(one) - placeOf(other)),
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
