import { untilSuccessful } from '@sluice/runtime/once'
import { type ClickHouseAddress, openClickHouseAt, parseClickHouseUrl } from '../clickhouse/client.ts'
import { lazyServers, storeServers } from '../clickhouse/cluster.ts'
import { clickHouseCode, ClickHouseError } from '../clickhouse/errors.ts'
import { externalTableClient, type ExternalTableQuery, type ExternalTableResult } from '../clickhouse/external-table.ts'
import { tombstoneAppliesCode } from '../erasures/tombstones.ts'
import { checkClickHouseSchema } from '../migrate.ts'
import { otherServerText, readStoreId, type StoreTarget, wrongStore } from '../store-identity.ts'
import { type BadRow, findBadRows } from './find-bad-rows.ts'
import { readFreeBytes } from './free-bytes.ts'
import { insertNewEventsStatement } from './insert-new-events-statement.ts'
import { insertUsersStatement } from './insert-users.ts'

/**
 * Rows to store, in the form in which the log carries them: JSON lines of `EventRow`
 * (packages/contracts/event-columns.ts).
 */
export interface EventBatch {
  payloads: readonly Buffer[]
  /** Whether some of the rows are undated and have a client's `event_id`. Such rows need a second look-back. */
  hasUndated: boolean
}

export interface InsertOptions {
  /** The lock of the insert: while an insert runs, ClickHouse refuses another one with the same query id (code 216). */
  queryId: string
  /** Whether ClickHouse first cancels a running insert with the same id, and waits until that insert has ended. */
  shouldReplaceRunning: boolean
  /**
   * The partition of the log that contains the rows. The rows are stored on shard `partition % shards`. Only a store on
   * a single server needs no partition.
   */
  partition?: number
  timeoutMs: number
}

/** The event store for services that insert. Repeated inserts of the same events store them once. */
export interface EventInserter {
  /**
   * Stores the rows that are not stored yet. Resolves to their number and to the number of rows that ClickHouse read,
   * which counts the batch several times, and the stored rows that it is compared with. Throws ClickHouseError. When
   * its `retryable` is true, the caller may repeat the call, whether or not this call stored rows. All inserts of a
   * shard must reach the server that the first one reached. Another server behind the same address refuses them, with
   * what to do.
   */
  insert(batch: EventBatch, options: InsertOptions): Promise<{ inserted: number; readRows: number }>
  /**
   * Stores records of users, JSON lines of `UserRow` (insert-users.ts), on every shard. They replace records of lower
   * versions; repeats change nothing. Throws ClickHouseError. When its `retryable` is true, the same call may be
   * repeated.
   */
  insertUsers(payloads: readonly Buffer[], options: { timeoutMs: number }): Promise<void>
  /**
   * The UUID of the store behind the URL. Throws AppError, with what to do, when inserts there would not be exactly
   * once: on another server than the one that `migrate` prepared, or in a table over a cluster. Throws ClickHouseError
   * while this is unknown. With a cluster, it is sufficient that one server answers.
   */
  storeId(): Promise<string>
  /** The number of shards of the store, which never changes. Throws as `storeId` does. */
  shards(): Promise<number>
  /**
   * Finds the lines that ClickHouse can't read as events, with the reasons. The statements read no stored rows, so a
   * wrong table or schema makes no line bad. Stores nothing. Throws ClickHouseError when the statements could not run.
   */
  findBadRows(
    lines: readonly Buffer[],
    options: Pick<InsertOptions, 'partition' | 'timeoutMs'>,
  ): Promise<readonly BadRow[]>
  /**
   * Free bytes on the disks of the table `events`; with several shards, the lowest number of a shard. Throws
   * ClickHouseError.
   */
  freeBytes(): Promise<number>
  /** Resolves when ClickHouse answers a query as this user, on every shard; throws ClickHouseError otherwise. */
  check(): Promise<void>
  /**
   * Throws AppError when this build can't work with the schema, and for the reasons of `storeId`. Throws
   * ClickHouseError while this is unknown.
   */
  checkSchema(): Promise<void>
  /** Closes all connections. A second call has no effect. */
  close(): Promise<void>
}

/**
 * An insert that does not compare its rows with tombstones fails when a tombstone may apply, and is then posted a
 * second time. For this time after such a failure, inserts compare their rows at the first attempt, which takes 9 ms.
 */
const compareTombstonesMs = 5_000

/**
 * Opens no connection before the first use; connections stay open between batches. Throws TypeError for a wrong URL.
 */
export function openEventInserter(url: string): EventInserter {
  return openEventInserterAt(parseClickHouseUrl(url))
}

/** Opens an inserter for an address whose URL was already split. */
export function openEventInserterAt(address: ClickHouseAddress): EventInserter {
  /** Read once, because a later answer could name other servers. */
  const servers = lazyServers(async () => {
    const addresses = await storeServers(address)
    return addresses.map((server, shard) =>
      openServerInserter(server, address.cluster === undefined ? undefined : { shard, shards: addresses.length }),
    )
  })

  const storeId = untilSuccessful(async () => {
    const ids = (await servers.all()).map((server) => server.storeId())
    return Promise.any(ids).catch(() => Promise.race(ids))
  })

  async function serverOf(partition: number | undefined): Promise<ServerInserter> {
    const all = await servers.all()
    if (partition === undefined && all.length > 1) throw new TypeError('with several shards, rows need a partition')
    const server = all[(partition ?? 0) % all.length]
    if (server === undefined) throw new TypeError(`there is no partition ${partition}`)
    return server
  }

  return {
    insert: async (batch, { partition, ...options }) =>
      (await serverOf(partition)).insert(batch, { ...options, store: await storeId() }),
    insertUsers: async (payloads, { timeoutMs }) => {
      const store = await storeId()
      await servers.map((server) => server.insertUsers(payloads, { store, timeoutMs }))
    },
    storeId,
    shards: async () => (await servers.all()).length,
    findBadRows: async (rows, { partition, timeoutMs }) => (await serverOf(partition)).findBadRows(rows, timeoutMs),
    freeBytes: async () => Math.min(...(await servers.map((server) => server.freeBytes()))),
    check: () => servers.forEach((server) => server.check()),
    checkSchema: async () => {
      await servers.map((server) => server.checkSchema())
      const store = await storeId()
      await servers.map((server) => server.requireStore(store))
    },
    close: servers.close,
  }
}

/** Inserts into one server: the only server of a store, or the server of a shard. */
type ServerInserter = ReturnType<typeof openServerInserter>

interface ServerInsertOptions extends Omit<InsertOptions, 'partition'> {
  /** The UUID of the store. */
  store: string
}

/** `position` is given for a server of a cluster. */
function openServerInserter(address: ClickHouseAddress, position?: StoreTarget['position']) {
  const client = externalTableClient(address)
  const clickHouse = openClickHouseAt(address)
  /** All first inserts share one request, because two requests could reach two servers. */
  const storeId = untilSuccessful(() => readStoreId(clickHouse, position))
  /** Inserts compare their rows with the tombstones at the first attempt until this time, by `performance.now()`. */
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
        const { settings, ...statement } = insertNewEventsStatement(target, { hasUndated, comparesTombstones })
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
