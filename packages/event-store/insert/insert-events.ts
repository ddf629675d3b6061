import { eventColumns } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import { type ClickHouseAddress, openClickHouseAt, parseClickHouseUrl } from '../client.ts'
import { clickHouseCode, ClickHouseError } from '../errors.ts'
import { checkClickHouseSchema } from '../migrate.ts'
import { isOwnServer, oneServerText, readStoreId } from '../store-identity.ts'
import { isNotErased, noTombstoneApplies, tombstoneAppliesCode, tombstonesSql } from '../tombstones.ts'
import { eventTableStructure } from './event-table-structure.ts'
import { externalTableClient, type ExternalTableQuery, type ExternalTableResult } from './external-table.ts'
import { type BadRow, findBadRows } from './find-bad-rows.ts'
import { readFreeBytes } from './free-bytes.ts'
import { insertUsersStatement } from './insert-users.ts'

/** Rows to store, as the log carries them: JSON lines of `EventRow` (packages/contracts/event-columns.ts). */
export interface EventBatch {
  payloads: readonly Buffer[]
  /** Whether some of the rows are undated ones with a client's `event_id`. They cost a look-back of their own. */
  hasUndated: boolean
}

export interface InsertOptions {
  /** The lock of the insert: ClickHouse refuses a second insert with the same id while the first runs (code 216). */
  queryId: string
  /** Whether a running insert of the same id is cancelled first; the insert then waits for the end of that one. */
  replaceRunning: boolean
  timeoutMs: number
}

/** The event store for services that insert. Repeated inserts of the same events store them once. */
export interface EventInserter {
  /**
   * Stores the rows that are not stored yet. Resolves to their number, and to the number of rows that ClickHouse read:
   * the batch several times, and the stored rows that it is compared with. Throws ClickHouseError; when its `retryable`
   * is true, the same call may be repeated, whether or not this one stored rows. Every insert goes to the server that the
   * first one went to: another one behind the same URL refuses it, and says what to do.
   */
  insert(batch: EventBatch, options: InsertOptions): Promise<{ inserted: number; readRows: number }>
  /**
   * Stores records of users, JSON lines of `UserRow` (insert-users.ts), in place of those of lower versions; repeats change
   * nothing. Throws ClickHouseError; when its `retryable` is true, the same call may be repeated.
   */
  insertUsers(payloads: readonly Buffer[], options: { timeoutMs: number }): Promise<void>
  /**
   * The UUID of the store behind the URL. Throws AppError, with what to do, when inserts would not be exactly once there:
   * on another server than the one that `migrate` prepared, or in a table of a cluster. ClickHouseError while unknown.
   */
  storeId(): Promise<string>
  /**
   * Finds the lines that ClickHouse can't read as events, with the reasons. Reads the lines alone, so that a wrong table
   * or schema makes no line bad. Stores nothing. Throws ClickHouseError when the statements could not run.
   */
  findBadRows(lines: readonly Buffer[], options: { timeoutMs: number }): Promise<readonly BadRow[]>
  /** The bytes that are free on the disks of the table of events. Throws ClickHouseError. */
  freeBytes(): Promise<number>
  /** Resolves when ClickHouse answers a query as this user; throws ClickHouseError otherwise. */
  check(): Promise<void>
  /** Throws AppError when this build can't work with the schema or as `storeId` does, ClickHouseError while it is unknown. */
  checkSchema(): Promise<void>
  /** Closes all connections. A second call has no effect. */
  close(): Promise<void>
}

type ExternalTableStatement = Pick<ExternalTableQuery, 'sql' | 'structure' | 'parameters'>

const columnNames = eventColumns.map(({ name }) => name).join(', ')

const time = timeSql('timestamp')

const select = eventColumns
  .map((column) => ('isTime' in column ? `${timeSql(column.name)} AS ${column.name}` : column.name))
  .join(', ')

const erasable = ['site', 'user_id', 'session_id', 'event_id'] as const

/**
 * True for rows of `b` that no erasure concerns. The condition is in the statement, because a writer that checked before
 * it, and was suspended in between, would bring rows back.
 */
const isKept = isNotErased(erasable, { receivedAt: 'received_at', timestamp: 'timestamp' })

/** True for stored rows that no erasure concerns. Those that are still to be deleted must not hide a copy sent since. */
const isStoredKept = isNotErased(erasable, {
  receivedAt: 'toUnixTimestamp64Milli(received_at)',
  timestamp: 'toUnixTimestamp64Milli(timestamp)',
})

function timeSql(column: string): string {
  return `fromUnixTimestamp64Milli(${column}, 'UTC')`
}

/**
 * True for rows of which none is stored with their (site_id, environment, event_id, timestamp): events of a dev key must
 * not hide those of a production key. The look-back reads only the seconds of the batch's own timestamps, and of
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
 * environment, event_id) those that are more than 15 minutes from every stored row and from the last row of the batch that
 * is stored. So every row is stored or within 15 minutes of a stored one, and storing it again, in any batch, has no
 * effect. A UNION costs ClickHouse half of the planning that a JOIN costs.
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
  /** What stands before the SELECT. */
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
function insertSql(tombstones: Tombstones, condition: string): string {
  return `
INSERT INTO events (${columnNames})
${tombstones.with}SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE ${isOwnServer} AND ${tombstones.condition} AND ${condition}
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`
}

function insertsOf(tombstones: Tombstones): { dated: string; mixed: string } {
  const condition = isNew(tombstones)
  return {
    dated: insertSql(tombstones, condition),
    mixed: insertSql(tombstones, `${condition} AND (NOT undated OR ${isNoCopy(tombstones)})`),
  }
}

const unerased = insertsOf(withoutTombstones)
const erasing = insertsOf(withTombstones)

/**
 * The insert of a batch into the store `storeId`; exported for bench/writer-backlog.ts, which posts it itself. Unless it
 * `comparesTombstones`, it fails with `tombstoneAppliesCode` where one may apply.
 */
export function insertStatement(
  hasUndated: boolean,
  storeId: string,
  { comparesTombstones = false } = {},
): ExternalTableStatement {
  const { dated, mixed } = comparesTombstones ? erasing : unerased
  return {
    sql: hasUndated ? mixed : dated,
    structure: eventTableStructure,
    parameters: {
      param_store: storeId,
      async_insert: '0',
      // A profile's token would make ClickHouse take every batch for the first one. Copies are left out by the statement.
      insert_deduplicate: '0',
      insert_deduplication_token: '',
      insert_null_as_default: '1',
      allow_custom_error_code_in_throwif: '1',
      // A batch may hold events of more than 100 months, each of which is a partition.
      throw_on_max_partitions_per_insert_block: '0',
      replace_running_query_max_wait_ms: '10000',
      // It merges copies within a batch, which the statement leaves out already: 6.2 s of CPU for a million rows with
      // it, 4.2 s without (batches of 20,000).
      optimize_on_insert: '0',
      // The writer inserts several partitions at a time: 4.2 s in threads that wait for each other, 3.7 s in one.
      input_format_parallel_parsing: '0',
    },
  }
}

/** A statement that compares tombstones costs 9 ms more, one that fails before it does costs all of it. */
const compareTombstonesMs = 5_000

/** Opens no connection before the first use; connections stay open between batches. Throws TypeError for a wrong URL. */
export function openEventInserter(url: string): EventInserter {
  return openEventInserterAt(parseClickHouseUrl(url))
}

/** As `openEventInserter`, for an address whose URL was split already. */
export function openEventInserterAt(address: ClickHouseAddress): EventInserter {
  const client = externalTableClient(address)
  const clickHouse = openClickHouseAt(address)
  /** One question for all first inserts: two answers could come from two servers. */
  let identified: Promise<string> | undefined
  const storeId = (): Promise<string> => {
    identified ??= readStoreId(clickHouse).catch((error: unknown) => {
      identified = undefined
      throw error
    })
    return identified
  }
  /** Until then (`performance.now()`) the inserts compare tombstones at once: one applied a moment ago. */
  let compareTombstonesUntil = 0
  const post = async (query: ExternalTableQuery): Promise<ExternalTableResult> => {
    try {
      return await client.post(query)
    } catch (error) {
      if (!(error instanceof ClickHouseError) || error.serverCode !== clickHouseCode.throwIf) throw error
      throw new ClickHouseError(error.serverCode, oneServerText, error)
    }
  }
  return {
    insert: async ({ payloads, hasUndated }, { queryId, replaceRunning, timeoutMs }) => {
      const store = await storeId()
      const insertOnce = async (comparesTombstones: boolean) => {
        const { parameters, ...statement } = insertStatement(hasUndated, store, { comparesTombstones })
        const { writtenRows, readRows } = await post({
          ...statement,
          payloads,
          parameters: { ...parameters, query_id: queryId, replace_running_query: replaceRunning ? '1' : '0' },
          timeoutMs,
        })
        return { inserted: writtenRows, readRows }
      }
      if (performance.now() < compareTombstonesUntil) return insertOnce(true)
      try {
        return await insertOnce(false)
      } catch (error) {
        if (!(error instanceof ClickHouseError) || error.serverCode !== tombstoneAppliesCode) throw error
        compareTombstonesUntil = performance.now() + compareTombstonesMs
        return insertOnce(true)
      }
    },
    insertUsers: async (payloads, { timeoutMs }) => {
      await post({ ...insertUsersStatement(await storeId()), payloads, timeoutMs })
    },
    storeId,
    findBadRows: (rows, { timeoutMs }) => findBadRows(client, rows, timeoutMs),
    freeBytes: () => readFreeBytes(clickHouse),
    check: () => clickHouse.check(),
    checkSchema: async () => {
      await checkClickHouseSchema(clickHouse)
      await storeId()
    },
    close: async () => {
      client.close()
      await clickHouse.close()
    },
  }
}
