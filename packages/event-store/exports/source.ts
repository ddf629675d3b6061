import type { EventKey } from '@sluice/contracts/exports'
import type { QueryRunner } from '../query-runner.ts'
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
   * Whether the next slice may be read while this one is written. A large one takes so long that ClickHouse would close
   * the connection of a result that nobody reads meanwhile.
   */
  allowsReadAhead: boolean
}

/** The rows that an export reads. */
export interface ExportSource {
  columns: readonly ExportColumn[]
  /**
   * The slices after a key, or all of them. `members` may keep what its argument selects, for further slices of the
   * same file.
   */
  slices(
    after: EventKey | undefined,
    members?: (select: () => Promise<ExportMembers>) => Promise<ExportMembers>,
  ): AsyncIterable<ExportSlice>
}

/** Events of a slice: enough that its statement is not what takes the time, and few enough to be repeated. */
const sliceEventsMax = 200_000
/**
 * The same where each slice evaluates a cohort with many members twice, which reads all events of the site that meet
 * its conditions: then that is what takes the time. ClickHouse keeps the result of a slice in memory or on its disk.
 */
const cohortSliceEventsMax = 500_000

/**
 * The events of a scope, in slices of the order of their keys. A cohort's members are selected once if they are few. What
 * is read is the same whoever reads it, as long as no more events of the scope are stored.
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

/** Rows that are read by one statement. */
export function wholeSource(rows: ExportRows): ExportSource {
  return {
    columns: rows.columns,
    async *slices() {
      yield await Promise.resolve({ rows, until: undefined, progress: 0, allowsReadAhead: true })
    },
  }
}
