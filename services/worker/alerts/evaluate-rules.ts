import type { SiteStore } from '@sluice/access/sites'
import type { Measured } from '@sluice/contracts/alert-state'
import { alertLimits } from '@sluice/contracts/alerts'
import type { QueryReader, QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import type { Lease } from '@sluice/leases/run-unit'
import type { Evaluation } from '@sluice/postgres/alert-evaluations'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertRuleStore } from '@sluice/postgres/alert-rules'
import type { Clock } from '@sluice/runtime/clock'
import { groupBySpec, type RuleGroup } from './group-rules.ts'
import { type GroupMeasurement, measureRuleGroup, measureRuleGroups } from './measure-rule-groups.ts'
import type { AlertMetrics } from './metrics.ts'

export interface EvaluateRulesDeps {
  rules: Pick<AlertRuleStore, 'step'>
  sites: Pick<SiteStore, 'find'>
  reader: Pick<QueryReader, 'runnerFor'>
  clock: Pick<Clock, 'now'>
  metrics: AlertMetrics
}

/** Rules of one site that are to be evaluated for one minute. */
export interface DueRules {
  siteId: string
  due: readonly AlertRule[]
  /** Start of the minute, Unix ms. */
  minute: number
  /** Whether the rule is evaluated with this measurement; otherwise its state stays. */
  accepts: (rule: AlertRule, measured: Measured) => boolean
  /**
   * A rule of each group of the site that ClickHouse did not answer before. These groups are measured after the others,
   * the first one first.
   */
  unanswered: readonly string[]
  /** Called once with `unanswered` of the site's next evaluation, also when the evaluations can't be stored then. */
  keepUnanswered: (ruleIds: readonly string[]) => void
}

/** Evaluations are stored after this long, although other groups are not measured yet. */
const storeEveryMs = 1_000
/** After so many groups in a row that ClickHouse does not answer, the other groups are not measured. */
const unansweredMax = 2
/** The error of a rule that ClickHouse did not answer although it answered others. */
const unansweredText = 'The condition was not answered in time: choose a shorter window, or a filter with fewer events'

/**
 * Measures the rules, grouped by equal specs, and stores their evaluations.
 *
 * If ClickHouse does not answer for a group, because its statement needs more than the server has, the other groups are
 * still evaluated. The group counts as failed when other groups were answered. Returns false when some rules are to be
 * evaluated again soon.
 */
export async function evaluateRules(
  { rules, sites, reader, clock, metrics }: EvaluateRulesDeps,
  { siteId, due, minute, accepts, unanswered: known, keepUnanswered }: DueRules,
  { signal }: Pick<Lease, 'signal'>,
): Promise<boolean> {
  if (due.length === 0) return true
  const site = await sites.find(siteId)
  const { usual, last } = splitUnanswered(groupBySpec(due, site?.settings), known)
  const runner = reader.runnerFor({ key: `alerts ${siteId}`, signal, priority: 'background' })

  let evaluations: Evaluation[] = []
  let storeAt = clock.now() + storeEveryMs
  const store = async (): Promise<void> => {
    const stepped = await rules.step(minute, evaluations, clock.now())
    for (const { transition } of stepped) if (transition) metrics.transitions.inc({ to: transition.to })
    evaluations = []
    storeAt = clock.now() + storeEveryMs
  }
  const addEvaluations = (group: RuleGroup, result: GroupMeasurement): void => {
    const evaluated = group.rules.filter((rule) => accepts(rule, result.measured))
    evaluations.push(...evaluated.map(({ ruleId, revision }) => ({ ruleId, revision, ...result })))
  }

  let tried = 0
  const unansweredGroups: RuleGroup[] = []
  for await (const [group, result] of measureInTurn({ usual, last }, minute, runner, metrics)) {
    signal.throwIfAborted()
    tried += 1
    if (result === 'unanswered') unansweredGroups.push(group)
    else addEvaluations(group, result)
    if (clock.now() >= storeAt) await store()
  }

  const isAnyAnswered = tried > unansweredGroups.length
  const areUsualTried = tried >= usual.length
  // Groups that were tried now are measured after the others the next time.
  const unanswered = [...last.slice(Math.max(0, tried - usual.length)), ...unansweredGroups]
  // `due` may be only some of the site's rules; the unanswered marks of the others stay.
  const ofOthers = known.filter((id) => due.every(({ ruleId }) => ruleId !== id))
  const ids = [...ofOthers, ...unanswered.flatMap(({ rules: [rule] }) => rule?.ruleId ?? [])]
  keepUnanswered(ids.slice(-alertLimits.rulesPerSiteMax))

  // ClickHouse answered other groups, so the conditions of these groups need too much.
  if (isAnyAnswered)
    for (const group of areUsualTried ? unanswered : unansweredGroups)
      addEvaluations(group, { measured: { outcome: 'failed' }, error: unansweredText })
  await store()
  return areUsualTried && (isAnyAnswered || unanswered.length === 0)
}

/** The groups of a pass: those in `last` are measured after the usual ones. */
interface OrderedGroups {
  usual: readonly RuleGroup[]
  last: readonly RuleGroup[]
}

/** Measures the groups one after the other, and stops when ClickHouse does not answer `unansweredMax` of them in a row. */
async function* measureInTurn(
  { usual, last }: OrderedGroups,
  minute: number,
  runner: QueryRunner,
  metrics: AlertMetrics,
): AsyncGenerator<[RuleGroup, GroupMeasurement | 'unanswered']> {
  const batched = await measureRuleGroups(usual, minute, runner, metrics)
  let unansweredInRow = 0
  for (const group of [...usual, ...last]) {
    const result = batched.get(group) ?? (await measureRuleGroup(group, minute, runner, metrics))
    unansweredInRow = result === 'unanswered' ? unansweredInRow + 1 : 0
    yield [group, result]
    if (unansweredInRow === unansweredMax) return
  }
}

/**
 * Splits the groups into those without one of these rules, and those with one, in the order of the rules. The latter
 * are to be measured last.
 */
function splitUnanswered(groups: readonly RuleGroup[], ruleIds: readonly string[]): OrderedGroups {
  const placeOf = ({ rules }: RuleGroup) => ruleIds.findIndex((id) => rules.some(({ ruleId }) => ruleId === id))
  return {
    usual: groups.filter((group) => placeOf(group) === -1),
    last: groups.filter((group) => placeOf(group) !== -1).sort((one, other) => placeOf(one) - placeOf(other)),
  }
}
