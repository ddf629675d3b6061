import { eventLimits } from '@sluice/contracts/event-fields'
import type { ClickHouseAddress } from './client.ts'
import { eventStructure } from './event-structure.ts'
import { externalTablePoster, type ExternalTableQuery } from './external-table.ts'
import { type BadRow, findBadRows } from './find-bad-rows.ts'

/** Rows to store, as the log carries them: JSON lines of `EventRow` (contracts/event-row.ts). */
export interface EventBatch {
  payloads: readonly Buffer[]
  /** The batch's kind: its rows are all undated with a client's `event_id`, or none is. */
  undated: boolean
}

export interface InsertOptions {
  /** One per log partition: ClickHouse refuses a second insert of the same id while the first runs (code 216). */
  queryId: string
  /** Cancels a running insert of the same id first, and waits for its end. */
  replaceRunning: boolean
  timeoutMs: number
}

/** Inserts events so that any replay of anything converges. */
export interface EventInserter {
  /**
   * Stores the rows that are not stored yet; returns how many those were, and how many ClickHouse read to find out: the
   * batch some times over, and what the look-back took from the table.
   * Throws ClickHouseError; when its `retryable` is true, the same call again is right, whatever became of this one.
   */
  insert(batch: EventBatch, options: InsertOptions): Promise<{ inserted: number; readRows: number }>
  /**
   * Which of these lines ClickHouse can't read as events, and why. Asks about the lines alone, not about the table, so
   * a wrong table or schema makes no row bad. Stores nothing. Throws ClickHouseError when it could not ask.
   */
  findBadRows(lines: readonly Buffer[], options: { timeoutMs: number }): Promise<readonly BadRow[]>
  close(): void
}

type ExternalTableStatement = Pick<ExternalTableQuery, 'sql' | 'structure' | 'parameters'>

const columns = [
  'site_id',
  'environment',
  'event_type',
  'timestamp',
  'event_id',
  'undated',
  'session_id',
  'user_id',
  'anonymous_id',
  'url',
  'referrer',
  'country',
  'device_type',
  'properties',
  'property_types',
  'received_at',
]

const time = `fromUnixTimestamp64Milli(timestamp, 'UTC')`

const select = columns
  .map((column) => {
    if (column === 'timestamp') return `${time} AS timestamp`
    if (column === 'received_at') return `fromUnixTimestamp64Milli(received_at, 'UTC') AS received_at`
    return column
  })
  .join(', ')

/**
 * Dated rows: one per (site_id, environment, event_id, timestamp), for what a dev key sends must not hide what a
 * production key does. The look-back reads only the seconds that the batch itself
 * touches, and of them only rows with one of its ids: 0.02–0.11 s CPU for 20,000 rows of one hot site.
 */
const insertDated = `
INSERT INTO events (${columns.join(', ')})
SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE (site_id, environment, event_id, ${time}) NOT IN
    (
        SELECT site_id, toString(environment), event_id, timestamp FROM events
        WHERE (site_id, toStartOfSecond(timestamp)) IN (SELECT site_id, toStartOfSecond(${time}) FROM b)
          AND event_key IN (SELECT cityHash64(event_id) FROM b)
    )
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`

/** How far apart undated copies may arrive and still be one event. */
const { copyWindowMs } = eventLimits

/**
 * Undated rows (timestamp = time of receipt): of each (site_id, environment, event_id), those that are more than 15 minutes from any
 * that is stored, and from the last one that was kept before them. So every row ends up stored, or within 15 minutes of
 * a stored one, and a repeat of it, in whatever company, stores nothing.
 */
const insertUndated = `
INSERT INTO events (${columns.join(', ')})
SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE (site_id, environment, event_id, timestamp) IN
    (
        SELECT site_id, environment, event_id, arrayJoin(arrayFold(
            (kept, at) -> if(at - kept[-1] > ${copyWindowMs}, arrayPushBack(kept, at), kept),
            arrayFilter(at -> NOT arrayExists(other -> abs(at - other) <= ${copyWindowMs}, stored_at), sent_at),
            emptyArrayInt64()))
        FROM
        (
            SELECT site_id, environment, event_id, arraySort(groupUniqArray(timestamp)) AS sent_at
            FROM b GROUP BY site_id, environment, event_id
        ) AS sent
        LEFT JOIN
        (
            SELECT
                site_id,
                toString(events.environment) AS environment,
                event_id,
                groupArray(toUnixTimestamp64Milli(timestamp)) AS stored_at
            FROM events
            WHERE undated
              AND site_id IN (SELECT site_id FROM b)
              AND timestamp >= (SELECT fromUnixTimestamp64Milli(min(timestamp) - ${copyWindowMs}, 'UTC') FROM b)
              AND timestamp <= (SELECT fromUnixTimestamp64Milli(max(timestamp) + ${copyWindowMs}, 'UTC') FROM b)
              AND event_key IN (SELECT cityHash64(event_id) FROM b)
            GROUP BY site_id, environment, event_id
        ) AS stored USING (site_id, environment, event_id)
    )
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`

/** The insert of a batch's kind, for whoever posts it by other means (bench/writer-backlog.ts). */
export function insertStatement(undated: boolean): ExternalTableStatement {
  return {
    sql: undated ? insertUndated : insertDated,
    structure: eventStructure,
    parameters: {
      async_insert: '0',
      // A batch over more than 100 months is legal, if rare.
      throw_on_max_partitions_per_insert_block: '0',
      replace_running_query_max_wait_ms: '10000',
      // What it would merge away, copies within a batch, the statement has left out already: 6.2 s CPU per million rows
      // with it, 4.2 without (batches of 20,000).
      optimize_on_insert: '0',
      // The writer serves several partitions at once: 4.2 s in threads that wait for each other, 3.7 in one.
      input_format_parallel_parsing: '0',
    },
  }
}

/** Connections stay open between batches; `close` ends them. */
export function eventInserter(address: ClickHouseAddress): EventInserter {
  const poster = externalTablePoster(address)
  return {
    insert: async ({ payloads, undated }, { queryId, replaceRunning, timeoutMs }) => {
      const { parameters, ...statement } = insertStatement(undated)
      const { writtenRows, readRows } = await poster.post({
        ...statement,
        payloads,
        parameters: { ...parameters, query_id: queryId, replace_running_query: replaceRunning ? '1' : '0' },
        timeoutMs,
      })
      return { inserted: writtenRows, readRows }
    },
    findBadRows: (rows, { timeoutMs }) => findBadRows(poster, rows, timeoutMs),
    close: () => {
      poster.close()
    },
  }
}
