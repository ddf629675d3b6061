import { type Grouping, type Metric, statsLimits } from '@sluice/contracts/stats'
import { dayMs } from '@sluice/contracts/time-units'
import { isTimeUnit, type Range } from '../calendar.ts'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { evaluateStats, type StatsNumbers } from '../stats/evaluate-stats.ts'
import { type EdgesRow, edgesStatement } from './events.ts'
import type { ExportColumn, ExportRows } from './row-formats.ts'
import type { ExportScope } from './scope.ts'

/** A metric whose breakdown is exported. */
export interface StatsExport {
  metric: Metric
  groupBy: Grouping | undefined
  /** IANA name. */
  timeZone: string
  /** Undefined: the default. */
  targetEvent: string | undefined
}

/**
 * The breakdown of a metric over the scope's range (docs/http-interface.md#stats-breakdown), or one row without a
 * grouping. Without a range, it extends from the site's first event to its last. As in answers, groups by value beyond
 * 100,000 are combined into one. Throws QueryTooLargeError as `evaluateStats` does.
 */
export async function statsExportRows(
  scope: ExportScope,
  { metric, groupBy, timeZone, targetEvent }: StatsExport,
  runner: QueryRunner,
): Promise<ExportRows> {
  const { start, end } = await rangeOf(scope, runner)
  const { siteId, environment, filter: conditions } = scope
  const spec = { siteId, environment, start, end, metric, timeZone, conditions, exact: true }
  const { value, groups } = await evaluateStats(
    {
      ...spec,
      limit: statsLimits.entriesMax,
      ...(groupBy === undefined ? {} : { groupBy }),
      ...(targetEvent === undefined ? {} : { targetEvent }),
    },
    runner,
  )
  const fields = breakdownFields(metric, groupBy)
  const lines = (groups ?? [{ start, value, isEstimated: false }]).map((group) =>
    JSON.stringify(entryOf(group, fields)),
  )
  return {
    columns: fields,
    sql: 'SELECT * FROM b',
    params: {},
    posted: {
      structure: fields.map(({ kind, name }, index) => `c${index} ${typeOf(kind, name)}`).join(', '),
      lines: Buffer.from(lines.join('\n')),
      count: lines.length,
    },
  }
}

/**
 * The range of the scope. Without one, the range contains all received events; an event's timestamp may be later than
 * its receipt.
 */
async function rangeOf(scope: ExportScope, runner: QueryRunner): Promise<Range> {
  if (scope.start !== undefined && scope.end !== undefined) return { start: scope.start, end: scope.end }
  const { rows } = await runner.query<EdgesRow>(edgesStatement(scope))
  const { first = 0, last = 0 } = rows[0] ?? {}
  const end = scope.end ?? Math.max(scope.receivedUntil, last + 1)
  // No event has the time 0, so 0 means that there is no event.
  return { start: scope.start ?? (first === 0 ? end - dayMs : first), end }
}

type StatsGroup = NonNullable<StatsNumbers['groups']>[number]

interface Field extends ExportColumn {
  valueOf: (group: StatsGroup) => string | number
}

/** The fields of an entry, in the order in which an answer has them. */
function breakdownFields(metric: Metric, groupBy: Grouping | undefined): Field[] {
  const isByType = metric === 'event_count_by_type'
  const isByValue = groupBy !== undefined && !isTimeUnit(groupBy) && !(isByType && groupBy === 'event_type')
  const text = (name: string, valueOf: Field['valueOf']): Field => ({ name, kind: 'text', valueOf })
  return [
    { name: 'timestamp', kind: 'number', valueOf: ({ start }) => start },
    ...(isByType || isByValue ? [text('key', ({ eventType, group }) => eventType ?? group ?? '')] : []),
    ...(isByValue ? [text(groupBy, ({ group }) => group ?? '')] : []),
    ...(isByType ? [text('event_type', ({ eventType }) => eventType ?? '')] : []),
    { name: 'value', kind: 'number', valueOf: ({ value }) => value },
  ]
}

function entryOf(group: StatsGroup, fields: readonly Field[]): Record<string, string | number> {
  return Object.fromEntries(fields.map(({ valueOf }, index) => [`c${index}`, valueOf(group)]))
}

function typeOf(kind: ExportColumn['kind'], name: string): string {
  if (kind !== 'number') return 'String'
  return name === 'timestamp' ? 'Int64' : 'Float64'
}
