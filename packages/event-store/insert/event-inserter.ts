import { type ClickHouseAddress, openClickHouseAt, parseClickHouseUrl } from '../client.ts'
import { onEach, storeServers, untilSuccessful } from '../cluster.ts'
import { clickHouseCode, ClickHouseError } from '../errors.ts'
import { externalTableClient, type ExternalTableQuery, type ExternalTableResult } from '../external-table.ts'
import { checkClickHouseSchema } from '../migrate.ts'
import { otherServerText, readStoreId, type StoreTarget, wrongStore } from '../store-identity.ts'
import { tombstoneAppliesCode } from '../tombstones.ts'
import { type BadRow, findBadRows } from './find-bad-rows.ts'
import { readFreeBytes } from './free-bytes.ts'
import { insertNewEventsStatement } from './insert-new-events-statement.ts'
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
  shouldReplaceRunning: boolean
  /**
   * The partition of the log that the rows come from: they are stored on shard `partition % shards`. Only a store on a
   * single server does without.
   */
  partition?: number
  timeoutMs: number
}

/** The event store for services that insert. Repeated inserts of the same events store them once. */
export interface EventInserter {
  /**
   * Stores the rows that are not stored yet. Resolves to their number, and to the number of rows that ClickHouse read:
   * the batch several times, and the stored rows that it is compared with. Throws ClickHouseError; when its `retryable`
   * is true, the same call may be repeated, whether or not this one stored rows. Every insert of a shard goes to the
   * server that the first one went to: another one behind the same address refuses it, and says what to do.
   */
  insert(batch: EventBatch, options: InsertOptions): Promise<{ inserted: number; readRows: number }>
  /**
   * Stores records of users, JSON lines of `UserRow` (insert-users.ts), in place of those of lower versions, on every
   * shard; repeats change nothing. Throws ClickHouseError; when its `retryable` is true, the same call may be repeated.
   */
  insertUsers(payloads: readonly Buffer[], options: { timeoutMs: number }): Promise<void>
  /**
   * The UUID of the store behind the URL. Throws AppError, with what to do, when inserts would not be exactly once
   * there: on another server than the one that `migrate` prepared, or in a table of a cluster. ClickHouseError while
   * unknown. Of the servers of a cluster, one that answers is enough.
   */
  storeId(): Promise<string>
  /** The number of shards of the store, which never changes. Throws as `storeId` does. */
  shards(): Promise<number>
  /**
   * Finds the lines that ClickHouse can't read as events, with the reasons. Reads the lines alone, so that a wrong
   * table or schema makes no line bad. Stores nothing. Throws ClickHouseError when the statements could not run.
   */
  findBadRows(
    lines: readonly Buffer[],
    options: Pick<InsertOptions, 'partition' | 'timeoutMs'>,
  ): Promise<readonly BadRow[]>
  /**
   * The bytes that are free on the disks of the table of events, of the shard that has the fewest. Throws
   * ClickHouseError.
   */
  freeBytes(): Promise<number>
  /** Resolves when ClickHouse answers a query as this user, on every shard; throws ClickHouseError otherwise. */
  check(): Promise<void>
  /**
   * Throws AppError when this build can't work with the schema or as `storeId` does, ClickHouseError while it is
   * unknown.
   */
  checkSchema(): Promise<void>
  /** Closes all connections. A second call has no effect. */
  close(): Promise<void>
}

/**
 * For how long after a tombstone was seen each insert compares tombstones at once, which costs 9 ms: an insert that does
 * not, and fails because a tombstone may apply, is posted a second time.
 */
const compareTombstonesMs = 5_000

/**
 * Opens no connection before the first use; connections stay open between batches. Throws TypeError for a wrong URL.
 */
export function openEventInserter(url: string): EventInserter {
  return openEventInserterAt(parseClickHouseUrl(url))
}

/** As `openEventInserter`, for an address whose URL was split already. */
export function openEventInserterAt(address: ClickHouseAddress): EventInserter {
  let opened: ServerInserter[] = []
  /** Requested once: later answers could name other servers. */
  const servers = untilSuccessful(async () => {
    const addresses = await storeServers(address)
    opened = addresses.map((server, shard) =>
      openServerInserter(server, address.cluster === undefined ? undefined : { shard, shards: addresses.length }),
    )
    return opened
  })

  const storeId = untilSuccessful(async () => {
    const ids = (await servers()).map((server) => server.storeId())
    return Promise.any(ids).catch(() => Promise.race(ids))
  })

  async function serverOf(partition: number | undefined): Promise<ServerInserter> {
    const all = await servers()
    if (partition === undefined && all.length > 1) throw new TypeError('with several shards, rows need a partition')
    const server = all[(partition ?? 0) % all.length]
    if (server === undefined) throw new TypeError(`there is no partition ${partition}`)
    return server
  }

  const onAll = async <T>(work: (server: ServerInserter) => Promise<T>): Promise<T[]> => onEach(await servers(), work)

  return {
    insert: async (batch, { partition, ...options }) =>
      (await serverOf(partition)).insert(batch, { ...options, store: await storeId() }),
    insertUsers: async (payloads, { timeoutMs }) => {
      const store = await storeId()
      await onAll((server) => server.insertUsers(payloads, { store, timeoutMs }))
    },
    storeId,
    shards: async () => (await servers()).length,
    findBadRows: async (rows, { partition, timeoutMs }) => (await serverOf(partition)).findBadRows(rows, timeoutMs),
    freeBytes: async () => Math.min(...(await onAll((server) => server.freeBytes()))),
    check: async () => {
      await onAll((server) => server.check())
    },
    checkSchema: async () => {
      await onAll((server) => server.checkSchema())
      const store = await storeId()
      await onAll((server) => server.requireStore(store))
    },
    close: async () => {
      for (const server of opened.splice(0)) await server.close()
    },
  }
}

/** Inserts into one server: the only one of a store, or a shard of it. */
type ServerInserter = ReturnType<typeof openServerInserter>

interface ServerInsertOptions extends Omit<InsertOptions, 'partition'> {
  /** The UUID of the store. */
  store: string
}

/** `position` is given for a server of a cluster. */
function openServerInserter(address: ClickHouseAddress, position?: StoreTarget['position']) {
  const client = externalTableClient(address)
  const clickHouse = openClickHouseAt(address)
  /** One request for all first inserts: two requests could be answered by two servers. */
  const storeId = untilSuccessful(() => readStoreId(clickHouse, position))
  /**
   * `performance.now()` until which inserts compare their rows with the tombstones at once, as one applied a moment
   * ago.
   */
  let compareTombstonesUntil = 0

  async function requireStore(id: string): Promise<StoreTarget> {
    if ((await storeId()) !== id) throw wrongStore(address)
    return { id, position }
  }

  async function post(query: ExternalTableQuery): Promise<ExternalTableResult> {
    try {
      return await client.post(query)
    } catch (error) {
      if (!(error instanceof ClickHouseError) || error.serverCode !== clickHouseCode.throwIf) throw error
      throw new ClickHouseError(error.serverCode, otherServerText(position), { cause: error, needsOperator: true })
    }
  }

  return {
    storeId,
    requireStore,
    insert: async (
      { payloads, hasUndated }: EventBatch,
      { store, queryId, shouldReplaceRunning, timeoutMs }: ServerInsertOptions,
    ) => {
      const target = await requireStore(store)
      const insertOnce = async (comparesTombstones: boolean) => {
        const { settings, ...statement } = insertNewEventsStatement(hasUndated, target, { comparesTombstones })
        const { writtenRows, readRows } = await post({
          ...statement,
          payloads,
          settings: { ...settings, query_id: queryId, replace_running_query: shouldReplaceRunning ? '1' : '0' },
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
    insertUsers: async (payloads: readonly Buffer[], { store, timeoutMs }: { store: string; timeoutMs: number }) => {
      await post({ ...insertUsersStatement(await requireStore(store)), payloads, timeoutMs })
    },
    findBadRows: (rows: readonly Buffer[], timeoutMs: number) => findBadRows(client, rows, timeoutMs),
    freeBytes: () => readFreeBytes(clickHouse),
    check: () => clickHouse.check(),
    checkSchema: () => checkClickHouseSchema(clickHouse),
    close: async () => {
      client.close()
      await clickHouse.close()
    },
  }
}
