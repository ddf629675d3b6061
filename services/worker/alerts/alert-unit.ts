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
import { measureGroup, measureGroups } from './measure-groups.ts'
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

/**
 * One unit of a site's alert rules: it judges them for the newest minute before which everything accepted can be read
 * (docs/alerts.md). Minutes that passed meanwhile, because no worker ran or the writers lagged, are never judged.
 *
 * A group that ClickHouse does not answer, because its statement needs more than the server has, keeps no other group from being
 * judged: it is measured again, and last.
 *
 * While the writers lag, states stand, but a number of events that is greater than its threshold already fires: late
 * events can only raise it.
 */
export function alertUnit(deps: AlertUnitDeps): (site: AlertSite, lease: Lease) => Promise<UnitResult> {
  const { rules, sites, watermarks, reader, clock, metrics } = deps
  /** The last minute for which this process has measured before its end was complete, by site. */
  const lastEarlyMinutes = new Map<string, number>()
  /** Ids of the rules that ClickHouse did not answer in the last unit of a site. */
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
    if (!(await judging.run(due, complete, () => true))) return { next: clock.now() + retryMs, log }
    if (judgedMinute < complete) await rules.advance(siteId, complete)
    if (complete === newest) {
      lastEarlyMinutes.delete(siteId)
      return { next: newest + minuteMs, log }
    }
    if (isEarlyDue) {
      lastEarlyMinutes.set(siteId, newest)
      const early = enabled.filter((rule) => rule.evaluatedMinute < newest && staysTrueWithLateEvents(rule))
      await judging.run(early, newest, isFulfilled)
    }
    return { next: clock.now() + waitMs, log: { ...log, waits: 'for the writers' } }
  }

  function judgingOf(siteId: string, lease: Lease) {
    const runner = reader.as({ key: `alerts ${siteId}`, signal: lease.signal, priority: 'background' })

    /** Judges rules whose measurements `accepts`; false: ClickHouse did not answer for all of them. */
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
      const groups = withLast(groupBySpec(due, site?.settings), unansweredRules.get(siteId))
      const unanswered = new Set<string>()
      let unansweredInRow = 0
      const together = await measureGroups(groups, minute, runner, metrics)
      for (const group of groups) {
        const measured = together.get(group) ?? (await measureGroup(group, minute, runner, metrics))
        lease.signal.throwIfAborted()
        if (measured === 'away') {
          for (const { ruleId } of group.rules) unanswered.add(ruleId)
          unansweredInRow += 1
          if (unansweredInRow === unansweredMax) break
          continue
        }
        unansweredInRow = 0
        judgements.push(
          ...group.rules
            .filter((rule) => accepts(rule, measured.measured))
            .map(({ ruleId, revision }) => ({ ruleId, revision, ...measured })),
        )
        if (clock.now() >= storeAt) await store()
      }
      await store()
      if (unanswered.size === 0) unansweredRules.delete(siteId)
      else unansweredRules.set(siteId, unanswered)
      return unanswered.size === 0
    }

    return { run }
  }
}

/** The groups in their order, but those with one of these rules last. */
function withLast(groups: readonly RuleGroup[], ruleIds: ReadonlySet<string> = new Set()): readonly RuleGroup[] {
  const isLast = ({ rules }: RuleGroup) => rules.some(({ ruleId }) => ruleIds.has(ruleId))
  return [...groups.filter((group) => !isLast(group)), ...groups.filter(isLast)]
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
