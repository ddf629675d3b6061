import type { SiteStore } from '@sluice/access/sites'
import { isMet, type Measured } from '@sluice/contracts/alert-state'
import { countsEvents } from '@sluice/event-store/alerts/alert-spec'
import type { QueryRunners } from '@sluice/event-store/query-runner'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { Judgement } from '@sluice/postgres/alert-judgements'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertRuleStore, AlertSite } from '@sluice/postgres/alert-rules'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { groupBySpec, type RuleGroup } from './group-rules.ts'
import { measureRuleGroup, measureRuleGroups } from './measure-rule-groups.ts'
import type { AlertMetrics } from './metrics.ts'

export interface AlertUnitDeps {
  rules: Pick<AlertRuleStore, 'listEnabled' | 'judge' | 'advance'>
  sites: Pick<SiteStore, 'find'>
  watermarks: Pick<WatermarkStore, 'completeUntil'>
  reader: Pick<QueryRunners, 'as'>
  clock: Pick<Clock, 'now'>
  metrics: AlertMetrics
}

const minuteMs = 60_000
/** The pause before the watermark is looked at again. */
const waitMs = 1_000
/** The watermark normally passes the end of a minute within this time; after that, changes of state that late events can't undo are reported early. */
const earlyAfterMs = 5_000
/** Judgements are stored after this long, although other specs of the site are not measured yet. */
const storeEveryMs = 1_000
/** The pause after a unit in which ClickHouse did not answer. */
const retryMs = 5_000
/** After so many groups in a row that ClickHouse does not answer, the other groups of the unit are not measured. */
const unansweredMax = 2
/** The error of a rule that ClickHouse did not answer although it answered others. */
const unansweredText = 'The condition was not answered in time: choose a shorter window, or a filter with fewer events'

/**
 * One unit of a site's alert rules: it judges them for the newest minute before which everything accepted can be read
 * (docs/alerts.md). Minutes that passed meanwhile, because no worker ran or the writers lagged, are never judged.
 *
 * A group that ClickHouse does not answer, because its statement needs more than the server has, keeps no other group from being
 * judged: it is measured last from then on, and has failed when other groups were answered.
 *
 * While the writers lag, states stand, but a number of events that is greater than its threshold already fires: late
 * events can only raise it.
 */
export function alertUnit(deps: AlertUnitDeps): (site: AlertSite, lease: Lease) => Promise<UnitResult> {
  const { rules, sites, watermarks, reader, clock, metrics } = deps
  /** The last minute for which this process has measured before its end was complete, by site. */
  const lastEarlyMinutes = new Map<string, number>()
  /** Ids of the rules that ClickHouse did not answer when they were measured last, by site. */
  const unansweredRules = new Map<string, ReadonlySet<string>>()

  return async ({ siteId, judgedMinute }, lease) => {
    const now = clock.now()
    // The windows reach back less far than the age from which on events travel on the other lane.
    const { live: completeUntil } = await watermarks.completeUntil()
    const newest = startOfMinute(now)
    const complete = Math.min(newest, startOfMinute(completeUntil))
    const isEarlyDue = complete < newest && now - newest >= earlyAfterMs && lastEarlyMinutes.get(siteId) !== newest
    const enabled = await rules.listEnabled(siteId)
    // A rule whose evaluation failed is not evaluated again before the next minute.
    const due = judgedMinute < complete ? enabled.filter(({ evaluatedMinute }) => evaluatedMinute < complete) : []
    const judging = judgingOf(siteId, lease)
    const log = { minute: complete, rules: due.length }
    const isJudged = await judging.run(due, complete, () => true)
    if (isJudged && judgedMinute < complete) await rules.advance(siteId, complete)
    if (isJudged && complete === newest) {
      lastEarlyMinutes.delete(siteId)
      return { next: newest + minuteMs, log }
    }
    if (isEarlyDue) {
      lastEarlyMinutes.set(siteId, newest)
      const early = enabled.filter((rule) => rule.evaluatedMinute < newest && staysTrueWithLateEvents(rule))
      await judging.run(early, newest, isFulfilled)
    }
    if (!isJudged) return { next: clock.now() + retryMs, log }
    return { next: clock.now() + waitMs, log: { ...log, waits: 'for the writers' } }
  }

  function judgingOf(siteId: string, lease: Lease) {
    const runner = reader.as({ key: `alerts ${siteId}`, signal: lease.signal, priority: 'background' })

    /** Judges rules whose measurements `accepts`; false: ClickHouse is away, or was for the last groups. */
    async function run(
      due: readonly AlertRule[],
      minute: number,
      accepts: (rule: AlertRule, measured: Measured) => boolean,
    ): Promise<boolean> {
      if (due.length === 0) return true
      const site = await sites.find(siteId)
      let judgements: Judgement[] = []
      let storeAt = clock.now() + storeEveryMs
      const store = async (): Promise<void> => {
        const judged = await rules.judge(minute, judgements, clock.now())
        for (const { transition } of judged) if (transition) metrics.transitions.inc({ to: transition.to })
        judgements = []
        storeAt = clock.now() + storeEveryMs
      }
      const judgeGroup = (group: RuleGroup, measured: Pick<Judgement, 'measured' | 'error'>): void => {
        const judged = group.rules.filter((rule) => accepts(rule, measured.measured))
        judgements.push(...judged.map(({ ruleId, revision }) => ({ ruleId, revision, ...measured })))
      }
      const unanswered = new Set(unansweredRules.get(siteId))
      const { usual, last } = divide(groupBySpec(due, site?.settings), unanswered)
      const away: RuleGroup[] = []
      let [unansweredInRow, answered] = [0, 0]
      const together = await measureRuleGroups(usual, minute, runner, metrics)
      for (const group of [...usual, ...last]) {
        const measured = together.get(group) ?? (await measureRuleGroup(group, minute, runner, metrics))
        lease.signal.throwIfAborted()
        if (measured === 'away') {
          for (const { ruleId } of group.rules) unanswered.add(ruleId)
          away.push(group)
          unansweredInRow += 1
          if (unansweredInRow === unansweredMax) break
          continue
        }
        unansweredInRow = 0
        answered += 1
        for (const { ruleId } of group.rules) unanswered.delete(ruleId)
        judgeGroup(group, measured)
        if (clock.now() >= storeAt) await store()
      }
      // It answered others: it is these conditions that need too much.
      if (answered > 0)
        for (const group of away) judgeGroup(group, { measured: { outcome: 'failed' }, error: unansweredText })
      await store()
      if (unanswered.size === 0) unansweredRules.delete(siteId)
      else unansweredRules.set(siteId, unanswered)
      return unansweredInRow < unansweredMax && (away.length === 0 || answered > 0)
    }

    return { run }
  }
}

/** The groups without and with one of these rules, which are to be measured last. */
function divide(
  groups: readonly RuleGroup[],
  ruleIds: ReadonlySet<string>,
): { usual: readonly RuleGroup[]; last: readonly RuleGroup[] } {
  const isLast = ({ rules }: RuleGroup) => rules.some(({ ruleId }) => ruleIds.has(ruleId))
  return { usual: groups.filter((group) => !isLast(group)), last: groups.filter(isLast) }
}

function startOfMinute(time: number): number {
  return Math.floor(time / minuteMs) * minuteMs
}

/** Whether late events can't make the condition false that is true already. */
function staysTrueWithLateEvents({ settings }: AlertRule): boolean {
  const { metric, operator } = settings.condition
  return countsEvents({ metric }) && (operator === 'greater_than' || operator === 'greater_than_or_equal')
}

function isFulfilled({ settings: { condition } }: AlertRule, measured: Measured): boolean {
  return measured.outcome === 'value' && isMet(condition, measured.value, 0)
}
