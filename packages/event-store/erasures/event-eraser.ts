import { unavailable } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import {
  type ClickHouse,
  type ClickHouseAddress,
  openClickHouseAt,
  parseClickHouseUrl,
  type QueryParams,
} from '../clickhouse/client.ts'
import { lazyServers, storeServers } from '../clickhouse/cluster.ts'
import { parameterChunks } from '../clickhouse/parameter-chunks.ts'
import type { SqlFragment } from '../clickhouse/query-runner.ts'
import { waitForStatements } from '../clickhouse/running-statements.ts'
import { checkRecordedShards } from '../store-identity.ts'
import { timeSql } from '../time-sql.ts'
import { erasedEvents, type ErasedRows, erasedUsers, tombstoneSql } from './erased-rows.ts'

/** The event store for services that delete. It does each step; services/worker/erasures decides their order. */
export interface EventEraser {
  /**
   * Stores the tombstones of an erasure. An insert that begins afterwards stores no row that the erasure selects.
   * Repeats change nothing. Throws ClickHouseError, as all methods do.
   */
  storeTombstone(erased: ErasedRows): Promise<void>
  /** Waits until every insert that runs at the time of the call has ended. Rejects when `signal` aborts. */
  waitForInserts(signal: AbortSignal): Promise<void>
  /** Counts the stored rows that an erasure selects. */
  count(erased: ErasedRows): Promise<{ events: number; users: number }>
  /**
   * Starts to delete what the erasures select. The deletion has ended when `isDeleting` returns false. Repeats are
   * harmless.
   */
  startDelete(erased: readonly ErasedRows[]): Promise<void>
  /**
   * Whether deletions run. Throws AppError `unavailable` with the reason when a deletion fails repeatedly. Other
   * mutations do not count: a mutation that fails would stop all erasures, although deletions may not need it.
   */
  isDeleting(): Promise<boolean>
  /**
   * Starts to record that nothing is left to delete. Then only inserts with rows from before the request compare their
   * rows with the tombstone.
   */
  retireTombstone(erased: Pick<ErasedRows, 'erasureId'>): Promise<void>
  /**
   * Starts to delete the expired events of some sites by partition: at least one site and at most `expiredSitesMax`,
   * with at most `expiredLimitsMax` different times. Returns the number of partitions and of events. Repeats are
   * harmless. Finding the partitions may take an hour: `confirm` is called before the deletion in each one, and rejects
   * when the events must not be deleted any more. Then no further deletion is started, and `startExpiry` rejects with
   * the same error.
   */
  startExpiry(
    sites: readonly ExpiredSite[],
    confirm: () => Promise<void>,
  ): Promise<{ partitions: number; events: number }>
  /** Starts to remove deleted rows from the disk. */
  startCleanup(): Promise<void>
  check(): Promise<void>
  close(): Promise<void>
}

/** A site whose events before a time have expired. */
export interface ExpiredSite {
  siteId: string
  /** Unix ms, exclusive. */
  before: number
}

/** Unix ms beyond the time of every row. */
const always = 9_000_000_000_000
/**
 * The DELETE returns once ClickHouse has recorded the mutation. ClickHouse then executes it in the background, also
 * after a restart.
 */
const noWait = { lightweight_deletes_sync: '0', mutations_sync: '0' } as const
/**
 * Maximum number of sites in one DELETE. Each DELETE rebuilds the projections of the parts that it changes, and the
 * next one waits for it, so few DELETEs with many sites end sooner. With ids of the greatest length, the mutation's text
 * stays below the 1 MB that ZooKeeper takes, if the tables are ever replicated (docs/decisions/043-replicas.md).
 */
export const expiredSitesMax = 4_000
/**
 * Maximum number of different limits of time in one DELETE. Each is a condition that ClickHouse evaluates for every row,
 * and takes 110 bytes of a statement whose size is limited.
 */
export const expiredLimitsMax = 200

/**
 * Opens no connection before the first use. Throws TypeError for a URL that is not one of ClickHouse. With a cluster,
 * every method works on all its servers and fails when one of them fails. All methods can be repeated.
 */
export function openEventEraser(url: string): EventEraser {
  return openEventEraserAt(parseClickHouseUrl(url))
}

/** Opens an eraser for an address whose URL was already split. */
export function openEventEraserAt(address: ClickHouseAddress): EventEraser {
  return address.cluster === undefined ? openServerEraser(address) : openClusterEraser(address)
}

function openClusterEraser(address: ClickHouseAddress): EventEraser {
  const servers = lazyServers(async () => {
    const addresses = await storeServers(address)
    // On the servers of another store, an erasure would succeed without having erased anything.
    await checkRecordedShards(addresses)
    return addresses.map(openServerEraser)
  })
  return {
    storeTombstone: (erased) => servers.forEach((server) => server.storeTombstone(erased)),
    waitForInserts: (signal) => servers.forEach((server) => server.waitForInserts(signal)),
    count: async (erased) => {
      const counts = await servers.map((server) => server.count(erased))
      // Each shard has a copy of every user.
      return { events: sum(counts.map(({ events }) => events)), users: Math.max(...counts.map(({ users }) => users)) }
    },
    startDelete: (erased) => servers.forEach((server) => server.startDelete(erased)),
    isDeleting: async () => (await servers.map((server) => server.isDeleting())).includes(true),
    retireTombstone: (erased) => servers.forEach((server) => server.retireTombstone(erased)),
    startExpiry: async (sites, confirm) => {
      const started = await servers.map((server) => server.startExpiry(sites, confirm))
      return {
        partitions: sum(started.map(({ partitions }) => partitions)),
        events: sum(started.map(({ events }) => events)),
      }
    },
    startCleanup: () => servers.forEach((server) => server.startCleanup()),
    check: () => servers.forEach((server) => server.check()),
    close: servers.close,
  }
}

const scanSecondsMax = 3_600
/** A scan reads all events of one or many sites. ClickHouse cancels it when the client closes the connection. */
const scanSettings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  max_execution_time: scanSecondsMax,
} as const

function openServerEraser(address: ClickHouseAddress): EventEraser {
  const clickHouse = openClickHouseAt(address)
  // ClickHouse sends nothing before a scan has ended.
  const scans = openClickHouseAt(address, { requestTimeoutMs: (scanSecondsMax + 60) * 1_000 })

  return {
    storeTombstone: async (erased) => {
      const { params } = erasedEvents(erased)
      // Two rows: the second one makes the tombstone apply to all inserts until it is retired.
      await clickHouse.command(
        `INSERT INTO erasures (erasure_id, site_id, key, requested_at, before, applies_until)
         SELECT {erasure_id:String}, ${tombstoneSql(erased)}, arrayJoin([{requested_at:Int64}, toInt64(${always})])`,
        { params: { ...params, erasure_id: erased.erasureId } },
      )
    },
    waitForInserts: (signal) => waitForStatements(clickHouse, address.database, { kinds: ['Insert'], signal }),
    count: async (erased) => {
      const users = erasedUsers(erased)
      return {
        events: await countRows(scans, 'events', erasedEvents(erased)),
        // Without FINAL, because a later import may hide an older record, which must be deleted too.
        users: users === undefined ? 0 : await countRows(scans, 'users', users),
      }
    },
    startDelete: async (erased) => {
      const events = anyOf(erased.map((each, index) => erasedEvents(each, `_${index}`)))
      await deleteByPartition({ clickHouse, scans }, events)
      const users = erased.flatMap((each, index) => erasedUsers(each, `_${index}`) ?? [])
      if (users.length === 0) return
      const { sql, params } = anyOf(users)
      await clickHouse.command(`DELETE FROM users WHERE ${sql}`, { params, settings: noWait })
    },
    isDeleting: () => isDeleting(clickHouse),
    retireTombstone: async ({ erasureId }) => {
      await clickHouse.command(
        `DELETE FROM erasures WHERE erasure_id = {erasure_id:String} AND applies_until = ${always}`,
        { params: { erasure_id: erasureId }, settings: noWait },
      )
    },
    startExpiry: (sites, confirm) => deleteByPartition({ clickHouse, scans }, expiredEvents(sites), confirm),
    startCleanup: async () => {
      for (const table of ['events', 'users', 'erasures']) {
        const { rows } = await clickHouse.query<{ parts: number }>(
          `SELECT count() AS parts FROM system.parts
           WHERE database = currentDatabase() AND table = {table:String} AND active AND has_lightweight_delete`,
          { table },
        )
        if ((rows[0]?.parts ?? 0) > 0) {
          await clickHouse.command(`ALTER TABLE ${table} APPLY DELETED MASK`, { settings: noWait })
        }
      }
    },
    check: () => clickHouse.check(),
    close: async () => {
      await Promise.all([clickHouse.close(), scans.close()])
    },
  }
}

/** The events of sites that have expired, with one condition for all sites with the same limit of time. */
function expiredEvents(sites: readonly ExpiredSite[]): SqlFragment {
  const siteIds = new Map<number, string[]>()
  for (const { siteId, before } of sites) {
    const group = siteIds.get(before)
    if (group === undefined) siteIds.set(before, [siteId])
    else group.push(siteId)
  }
  const groups = [...siteIds].flatMap(([before, ids]) => parameterChunks(ids).map((chunk) => ({ before, ids: chunk })))
  const conditions = groups.map(({ before, ids }, index) => ({
    sql: `(site_id IN {site_ids_${index}:Array(String)} AND timestamp < ${timeSql(`{before_${index}:Int64}`)})`,
    params: { [`site_ids_${index}`]: ids, [`before_${index}`]: before },
  }))
  return anyOf(conditions)
}

function anyOf(conditions: readonly SqlFragment[]): SqlFragment {
  return {
    sql: conditions.map(({ sql }) => sql).join(' OR '),
    params: Object.assign({}, ...conditions.map(({ params }) => params)) as QueryParams,
  }
}

async function countRows(scans: ClickHouse, table: string, { sql, params }: SqlFragment): Promise<number> {
  const { rows } = await scans.query<{ rows: number }>(`SELECT count() AS rows FROM ${table} WHERE ${sql}`, params, {
    settings: scanSettings,
  })
  return rows[0]?.rows ?? 0
}

/**
 * Runs one DELETE for each partition that holds such rows. ClickHouse then does not process other partitions, and does
 * not block inserts. Within a partition it processes every part: it copies one without such rows by links, and rebuilds
 * the projections of the others.
 */
async function deleteByPartition(
  { clickHouse, scans }: { clickHouse: ClickHouse; scans: ClickHouse },
  { sql, params }: SqlFragment,
  confirm?: () => Promise<void>,
): Promise<{ partitions: number; events: number }> {
  const { rows } = await scans.query<{ partition: string; events: number }>(
    `SELECT _partition_id AS partition, count() AS events FROM events WHERE ${sql} GROUP BY partition ORDER BY partition`,
    params,
    { settings: scanSettings },
  )
  for (const { partition } of rows) {
    await confirm?.()
    // The partition's value is a number: the year, or the year and month (insert/table-partition.ts).
    await clickHouse.command(`DELETE FROM events IN PARTITION ${Number(partition)} WHERE ${sql}`, {
      params,
      settings: noWait,
    })
  }
  return { partitions: rows.length, events: sum(rows.map(({ events }) => events)) }
}

async function isDeleting(clickHouse: ClickHouse): Promise<boolean> {
  const { rows } = await clickHouse.query<{ reason: string }>(
    `SELECT latest_fail_reason AS reason FROM system.mutations
     WHERE database = currentDatabase() AND table IN ('events', 'users') AND NOT is_done AND NOT is_killed
       AND (command LIKE '%\\_row\\_exists = 0%' OR command LIKE '%APPLY DELETED MASK%')`,
  )
  const failed = rows.find(({ reason }) => reason !== '')
  if (failed !== undefined) throw unavailable(`a mutation fails: ${failed.reason}`)
  return rows.length > 0
}
