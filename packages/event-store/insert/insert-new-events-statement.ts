import { eventColumns } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import type { ExternalTableQuery } from '../external-table.ts'
import { ownServerCondition, ownShardCondition, storeParameters, type StoreTarget } from '../store-identity.ts'
import { timeSql } from '../time-sql.ts'
import { isNotErased, noTombstoneApplies, tombstonesSql } from '../tombstones.ts'
import { eventTableStructure } from './event-table-structure.ts'

type ExternalTableStatement = Pick<ExternalTableQuery, 'sql' | 'params' | 'structure' | 'settings'>

const columnNames = eventColumns.map(({ name }) => name).join(', ')

const time = timeSql('timestamp')

const select = eventColumns
  .map((column) => ('isTime' in column ? `${timeSql(column.name)} AS ${column.name}` : column.name))
  .join(', ')

const erasable = ['site', 'user_id', 'session_id', 'event_id'] as const

/**
 * True for rows of `b` that no erasure concerns. The condition is in the statement, because a writer that checked
 * before it, and was suspended in between, would bring rows back.
 */
const isKept = isNotErased(erasable, { receivedAt: 'received_at', timestamp: 'timestamp' })

/**
 * True for stored rows that no erasure concerns. Those that are still to be deleted must not hide a copy sent since.
 */
const isStoredKept = isNotErased(erasable, {
  receivedAt: 'toUnixTimestamp64Milli(received_at)',
  timestamp: 'toUnixTimestamp64Milli(timestamp)',
})

/**
 * True for rows of which none is stored with their (site_id, environment, event_id, timestamp): events of a dev key
 * must not hide those of a production key. The look-back reads only the seconds of the batch's own timestamps, and of
 * them only rows with one of the batch's ids: 0.02–0.11 s of CPU for 20,000 rows of one hot site.
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
 * True for the undated rows, whose timestamp is the time of receipt, that are no copies of others: for each (site_id,
 * environment, event_id) those that are more than 15 minutes from every stored row and from the last row of the batch
 * that is stored. So every row is stored or within 15 minutes of a stored one, and storing it again, in any batch, has
 * no effect. A UNION costs ClickHouse half of the planning that a JOIN costs.
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
              AND timestamp >= (SELECT fromUnixTimestamp64Milli(min(timestamp) - ${copyWindowMs}, 'UTC') FROM b WHERE undated)
              AND timestamp <= (SELECT fromUnixTimestamp64Milli(max(timestamp) + ${copyWindowMs}, 'UTC') FROM b WHERE undated)
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
  /** A condition on other rows, after which SQL may follow; nothing where no tombstone applies. */
  and: (condition: string) => string
}

/** Fails where a tombstone may apply. Nearly every batch is received after all requests, and need not be compared. */
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

/** Stores the rows of `b` for which the condition is true, one of each key. */
function insertSql(isOwn: string, tombstones: Tombstones, condition: string): string {
  return `
INSERT INTO events (${columnNames})
${tombstones.with}SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE ${isOwn} AND ${tombstones.condition} AND ${condition}
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`
}

function insertsOf(isOwn: string, tombstones: Tombstones): { dated: string; mixed: string } {
  const condition = isNew(tombstones)
  return {
    dated: insertSql(isOwn, tombstones, condition),
    mixed: insertSql(isOwn, tombstones, `${condition} AND (NOT undated OR ${isNoCopy(tombstones)})`),
  }
}

const onServer = {
  unerased: insertsOf(ownServerCondition, withoutTombstones),
  erasing: insertsOf(ownServerCondition, withTombstones),
}
const onShard = {
  unerased: insertsOf(ownShardCondition, withoutTombstones),
  erasing: insertsOf(ownShardCondition, withTombstones),
}

/**
 * The insert of a batch into a store; exported for bench/writer-backlog.ts, which posts it itself. Unless it
 * `comparesTombstones`, it fails with `tombstoneAppliesCode` where one may apply.
 */
export function insertNewEventsStatement(
  hasUndated: boolean,
  store: StoreTarget,
  { comparesTombstones = false } = {},
): ExternalTableStatement {
  const { unerased, erasing } = store.position === undefined ? onServer : onShard
  const { dated, mixed } = comparesTombstones ? erasing : unerased
  return {
    sql: hasUndated ? mixed : dated,
    structure: eventTableStructure,
    params: storeParameters(store),
    settings: {
      async_insert: '0',
      // A profile's token would make ClickHouse take every batch for the first one. Copies are left out by the
      // statement.
      insert_deduplicate: '0',
      insert_deduplication_token: '',
      insert_null_as_default: '1',
      allow_custom_error_code_in_throwif: '1',
      // A batch may hold events of more than 100 months, each of which is a partition.
      throw_on_max_partitions_per_insert_block: '0',
      replace_running_query_max_wait_ms: '10000',
      // The optimization merges copies within a batch, which the statement leaves out already: 6.2 s of CPU for a
      // million rows with it, 4.2 s without (batches of 20,000).
      optimize_on_insert: '0',
      // The writer inserts several partitions at a time: 4.2 s in threads that wait for each other, 3.7 s in one.
      input_format_parallel_parsing: '0',
    },
  }
}
