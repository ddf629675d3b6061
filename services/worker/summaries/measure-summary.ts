import { type EventSummary, topEventTypesMax } from '@sluice/contracts/event-summary'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import type { EventScope } from '@sluice/event-store/event-scope'
import { evaluateStats } from '@sluice/event-store/stats/evaluate-stats'

/**
 * Measures a period as GET /api/v1/stats does. Counts are exact, because a summary marks no estimates. Throws what
 * evaluateStats throws.
 */
export async function measureSummary(scope: EventScope, runner: QueryRunner): Promise<EventSummary> {
  const valueOf = async (metric: 'unique_users' | 'unique_sessions' | 'bounce_rate'): Promise<number> =>
    (await evaluateStats({ ...scope, metric, exact: metric !== 'bounce_rate' }, runner)).value
  const types = await evaluateStats({ ...scope, metric: 'event_count_by_type', limit: topEventTypesMax }, runner)
  return {
    period_start: scope.start,
    period_end: scope.end,
    event_count: types.value,
    unique_users: await valueOf('unique_users'),
    unique_sessions: await valueOf('unique_sessions'),
    bounce_rate: await valueOf('bounce_rate'),
    // The last group is that of all other types together.
    top_event_types: (types.groups ?? [])
      .slice(0, topEventTypesMax)
      .map(({ eventType = '', value }) => ({ event_type: eventType, count: value })),
  }
}
