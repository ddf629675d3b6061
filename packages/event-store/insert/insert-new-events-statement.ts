import { eventColumns } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import type { ExternalTableQuery } from '../clickhouse/external-table.ts'
import { isNotErased, noTombstoneApplies, tombstonesSql } from '../erasures/tombstones.ts'
import { ownStoreCondition, storeParameters, type StoreTarget } from '../store-identity.ts'
import { timeSql } from '../time-sql.ts'
import { eventColumnNames, eventTableStructure } from './event-table-structure.ts'

type ExternalTableStatement = Pick<ExternalTableQuery, 'sql' | 'params' | 'structure' | 'settings'>

const time = timeSql('timestamp')

const select = eventColumns
  .map((column) => ('isTime' in column ? `${timeSql(column.name)} AS ${column.name}` : column.name))
  .join(', ')

const erasable = ['site', 'user_id', 'session_id', 'event_id'] as const

/**
 * True for rows of `b` that no erasure selects. The condition is part of the statement: a writer that checked
 * beforehand, and was suspended between the check and the insert, would store erased rows.
 */
const isKept = isNotErased(erasable, { receivedAt: 'received_at', timestamp: 'timestamp' })

/**
 * True for stored rows that no erasure selects. A stored row that is still to be deleted must not hide a copy that was
 * sent after the erasure.
 */
const isStoredKept = isNotErased(erasable, {
  receivedAt: 'toUnixTimestamp64Milli(received_at)',
  timestamp: 'toUnixTimestamp64Milli(timestamp)',
})

/**
 * True for rows of `b` when no stored row has the same (site_id, environment, event_id, timestamp). The key contains
 * the environment, because events of a dev key must not hide those of a production key. The look-back only reads the
 * seconds of the batch's timestamps, and from these only rows with an id of the batch: 0.02–0.11 s of CPU for 20,000
 * rows of one hot site.
 */
const isNew = ({ and }: Tombstones): string => `(site_id, environment, event_id, ${time}) NOT IN
    (
        SELECT site_id, toString(environment), event_id, timestamp FROM events
        WHERE (site_id, toStartOfSecond(timestamp)) IN (SELECT site_id, toStartOfSecond(${time}) FROM b)
          AND event_key IN (SELECT cityHash64(event_id) FROM b)${and(isStoredKept)}
    )`

/** Undated copies of an event arrive within this time, in ms. */
const { copyWindowMs } = eventLimits

/**
 * True for undated rows that are not copies. The timestamp of an undated row is its time of receipt. For each (site_id,
 * environment, event_id), a row is stored if it is more than 15 minutes from every stored row and from the last row of
 * the batch that is stored. After the insert, each row is stored or lies within 15 minutes of a stored row. A repeated
 * insert therefore stores nothing, in any batch. A UNION takes half of the planning time of a JOIN.
 */
const isNoCopy = ({ and }: Tombstones): string => `(site_id, environment, event_id, timestamp) IN
    (
        SELECT site_id, environment, event_id, arrayJoin(arrayFold(
            (kept, at) -> if(at - kept[-1] > ${copyWindowMs}, arrayPushBack(kept, at), kept),
            arrayFilter(
                at -> NOT arrayExists(other -> abs(at - other) <= ${copyWindowMs}, groupArrayIf(row_at, is_stored)),
                arraySort(groupUniqArrayIf(row_at, NOT is_stored))),
            emptyArrayInt64()))
        FROM
        (
            SELECT site_id, environment, event_id, timestamp AS row_at, 0 AS is_stored FROM b WHERE undated${and(isKept)}
            UNION ALL
            SELECT site_id, toString(environment), event_id, toUnixTimestamp64Milli(timestamp), 1
            FROM events
            WHERE undated
              AND site_id IN (SELECT site_id FROM b WHERE undated)
              AND timestamp >= (SELECT ${timeSql(`min(timestamp) - ${copyWindowMs}`)} FROM b WHERE undated)
              AND timestamp <= (SELECT ${timeSql(`max(timestamp) + ${copyWindowMs}`)} FROM b WHERE undated)
              AND event_key IN (SELECT cityHash64(event_id) FROM b WHERE undated)${and(isStoredKept)}
        )
        GROUP BY site_id, environment, event_id
    )`

/** How a statement treats the tombstones of erasures. */
interface Tombstones {
  /** The WITH clause before the SELECT. */
  with: string
  /** The first condition on rows. */
  condition: string
  /** SQL of a further condition with AND, for other rows. Empty when the statement does not compare tombstones. */
  and: (condition: string) => string
}

/**
 * The statement fails when a tombstone may apply. Nearly all batches are received after all requested erasures, so
 * their rows need not be compared with tombstones.
 */
const withoutTombstones: Tombstones = {
  with: '',
  condition: noTombstoneApplies('received_at'),
  and: () => '',
}

/** Leaves out the rows that tombstones erase. */
const withTombstones: Tombstones = {
  with: `WITH ${tombstonesSql('received_at')} AS tombstones\n`,
  condition: isKept,
  and: (condition) => ` AND ${condition}`,
}

/** Stores the rows of `b` for which the condition is true, and only one row of each key. */
function insertSql(isOwn: string, tombstones: Tombstones, condition: string): string {
  return `
INSERT INTO events (${eventColumnNames})
${tombstones.with}SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE ${isOwn} AND ${tombstones.condition} AND ${condition}
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`
}

/**
 * The insert of a batch. bench/writer-backlog.ts posts it itself. Unless the statement `comparesTombstones`, it fails
 * with `tombstoneAppliesCode` when a tombstone may apply.
 */
export function insertNewEventsStatement(
  store: StoreTarget,
  { hasUndated, comparesTombstones }: { hasUndated: boolean; comparesTombstones: boolean },
): ExternalTableStatement {
  const tombstones = comparesTombstones ? withTombstones : withoutTombstones
  const condition = hasUndated ? `${isNew(tombstones)} AND (NOT undated OR ${isNoCopy(tombstones)})` : isNew(tombstones)
  return {
    sql: insertSql(ownStoreCondition(store), tombstones, condition),
    structure: eventTableStructure,
    params: storeParameters(store),
    settings: {
      async_insert: '0',
      // With a deduplication token from a settings profile, ClickHouse would take every batch for a repeat of the first
      // one. The statement itself leaves out copies.
      insert_deduplicate: '0',
      insert_deduplication_token: '',
      insert_null_as_default: '1',
      allow_custom_error_code_in_throwif: '1',
      // A batch may hold events of more than 100 months, each of which is a partition.
      throw_on_max_partitions_per_insert_block: '0',
      replace_running_query_max_wait_ms: '10000',
      // This optimization merges copies within a batch, which the statement has left out already. A million rows took
      // 6.2 s of CPU with it and 4.2 s without, in batches of 20,000.
      optimize_on_insert: '0',
      // The writer inserts several partitions concurrently. Parallel parsing took 4.2 s in threads that wait for each
      // other, instead of 3.7 s in one thread.
      input_format_parallel_parsing: '0',
    },
  }
}
