import type { EventKey } from '@sluice/contracts/exports'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import {
  type EdgesRow,
  edgesStatement,
  eventExportRows,
  exportedEventColumns,
  type SliceEndRow,
  sliceEndStatement,
} from './events.ts'
import { selectMembers } from './members.ts'
import type { ExportColumn, ExportRows } from './row-formats.ts'
import type { ExportScope } from './scope.ts'

/** The members of a file's cohort, by `selectMembers`. */
export type ExportMembers = Awaited<ReturnType<typeof selectMembers>>

/** Some of the rows of an export, in their place among the others. */
export interface ExportSlice {
  rows: ExportRows
  /** The key after which the next slice begins; undefined: this is the last slice. */
  until: EventKey | undefined
  /** Percent of the work that is done with this slice, an estimate. */
  progress: number
  /**
   * Whether the next slice may be read while this one is written. Slices that evaluate the cohort take long to write,
   * and ClickHouse would close the connection of a result that nobody reads in the meantime.
   */
  allowsReadAhead: boolean
}

/** The rows that an export reads. */
export interface ExportSource {
  columns: readonly ExportColumn[]
  /**
   * The slices after a key, or all of them. `members` may store what its argument selects, and return it for further
   * slices of the same file.
   */
  slices(
    after: EventKey | undefined,
    members?: (select: () => Promise<ExportMembers>) => Promise<ExportMembers>,
  ): AsyncIterable<ExportSlice>
}

/**
 * Maximum number of events in a slice. Reading so many takes longer than the statement's overhead, and a repeat is
 * cheap.
 */
const sliceEventsMax = 200_000
/**
 * The same limit for a cohort with many members. Each slice then evaluates the cohort twice, which reads all events of
 * the site that meet the cohort's conditions and takes most of the time. ClickHouse keeps the result of a slice in
 * memory or on its disk.
 */
const cohortSliceEventsMax = 500_000

/**
 * The events of a scope, sorted by their keys and divided into slices. If a cohort has few members, they are selected
 * once. Every read returns the same slices, as long as no further events of the scope are stored.
 */
export function eventSource(
  scope: ExportScope,
  runner: QueryRunner,
  { eventsMax, membersMax }: { eventsMax?: number; membersMax?: number } = {},
): ExportSource {
  return {
    columns: exportedEventColumns,
    async *slices(from, members = (select) => select()) {
      let after = from
      const found = scope.cohort && (await members(() => selectMembers(scope, runner, membersMax)))
      const isEvaluated = found === 'many'
      const listed: ExportScope =
        scope.cohort && found && !isEvaluated ? { ...scope, cohort: { ...scope.cohort, members: found } } : scope
      const max = eventsMax ?? (isEvaluated ? cohortSliceEventsMax : sliceEventsMax)
      const [edges] = (await runner.query<EdgesRow>(edgesStatement(scope))).rows
      for (;;) {
        const [end] = (await runner.query<SliceEndRow>(sliceEndStatement({ scope: listed, after }, max))).rows
        if (end === undefined || end.events === 0) return
        const until: EventKey = [end.timestamp, end.event_id, end.environment]
        yield {
          rows: eventExportRows({ scope: listed, after, until }),
          until,
          progress: progressAt(end.timestamp, edges),
          allowsReadAhead: !isEvaluated,
        }
        if (end.events < max) return
        after = until
      }
    },
  }
}

function progressAt(timestamp: number, { first, last }: EdgesRow = { first: 0, last: 0 }): number {
  if (last <= first) return 0
  return Math.min(99, Math.max(0, (100 * (timestamp - first)) / (last - first)))
}

/** The rows of an export that one statement reads. */
export function wholeSource(rows: ExportRows): ExportSource {
  return {
    columns: rows.columns,
    async *slices() {
      yield await Promise.resolve({ rows, until: undefined, progress: 0, allowsReadAhead: true })
    },
  }
}
