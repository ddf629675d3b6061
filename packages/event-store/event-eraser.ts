import { unavailable } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import {
  type ClickHouse,
  type ClickHouseAddress,
  openClickHouseAt,
  parseClickHouseUrl,
  type QueryParams,
} from './client.ts'
import { onEach, storeServers, untilSuccessful } from './cluster.ts'
import { erasedEvents, type ErasedRows, erasedUsers, type RowCondition, tombstoneSql } from './erased-rows.ts'
import { waitForStatements } from './running-statements.ts'
import { checkRecordedShards } from './store-identity.ts'

/**
 * The event store for services that delete: everything but the order of the steps, which is services/worker/erasures'.
 */
export interface EventEraser {
  /**
   * Stores the tombstones of an erasure: from then on no insert that begins stores what it selects. Repeats change
   * nothing. Throws ClickHouseError, as all methods do.
   */
  storeTombstone(erased: ErasedRows): Promise<void>
  /** Waits until every insert has ended that is under way at the call. Rejects when `signal` aborts. */
  waitForInserts(signal: AbortSignal): Promise<void>
  /** Counts the stored rows that an erasure selects. */
  count(erased: ErasedRows): Promise<{ events: number; users: number }>
  /** Begins to delete what the erasures select; `isDeleting` shows when that has ended. Repeats are harmless. */
  startDelete(erased: readonly ErasedRows[]): Promise<void>
  /**
   * Whether deletions are under way. Throws AppError 503 with the reason of one that fails again and again. Mutations
   * of others don't count: those that fail would stop all erasures, although a deletion may not need what they change.
   */
  isDeleting(): Promise<boolean>
  /** Begins to note that nothing is left to delete: then only inserts of rows from before the request are compared. */
  retireTombstone(erased: Pick<ErasedRows, 'erasureId'>): Promise<void>
  /**
   * Begins to delete the events of some sites, at least one and at most `expiredSitesMax`, by partition. Returns how
   * many there are; repeats are harmless.
   */
  startExpiry(sites: readonly ExpiredSite[]): Promise<{ partitions: number; events: number }>
  /** Begins to remove deleted rows from the disk. */
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
/** The DELETE returns once it is noted; ClickHouse carries it out by itself, also after a restart. */
const noWait = { lightweight_deletes_sync: '0', mutations_sync: '0' } as const
/** Sites of one DELETE: a statement has a limited size. */
export const expiredSitesMax = 200

/**
 * Opens no connection before the first use. Throws TypeError for a URL that names no ClickHouse. With a cluster every
 * method does its work on each of its servers, and fails when one of them does: all methods can be repeated.
 */
export function openEventEraser(url: string): EventEraser {
  return openEventEraserAt(parseClickHouseUrl(url))
}

/** As `openEventEraser`, for an address whose URL was split already. */
export function openEventEraserAt(address: ClickHouseAddress): EventEraser {
  return address.cluster === undefined ? openServerEraser(address) : openClusterEraser(address)
}

function openClusterEraser(address: ClickHouseAddress): EventEraser {
  let opened: EventEraser[] = []
  const servers = untilSuccessful(async () => {
    const addresses = await storeServers(address)
    // An erasure on servers of another store would end without having erased anything.
    await checkRecordedShards(addresses)
    opened = addresses.map(openServerEraser)
    return opened
  })
  const onAll = async <T>(work: (server: EventEraser) => Promise<T>): Promise<T[]> => onEach(await servers(), work)
  const allDo = async (work: (server: EventEraser) => Promise<void>): Promise<void> => {
    await onAll(work)
  }
  return {
    storeTombstone: (erased) => allDo((server) => server.storeTombstone(erased)),
    waitForInserts: (signal) => allDo((server) => server.waitForInserts(signal)),
    count: async (erased) => {
      const counts = await onAll((server) => server.count(erased))
      // Each shard has a copy of every user.
      return { events: sum(counts.map(({ events }) => events)), users: Math.max(...counts.map(({ users }) => users)) }
    },
    startDelete: (erased) => allDo((server) => server.startDelete(erased)),
    isDeleting: async () => (await onAll((server) => server.isDeleting())).includes(true),
    retireTombstone: (erased) => allDo((server) => server.retireTombstone(erased)),
    startExpiry: async (sites) => {
      const started = await onAll((server) => server.startExpiry(sites))
      return {
        partitions: sum(started.map(({ partitions }) => partitions)),
        events: sum(started.map(({ events }) => events)),
      }
    },
    startCleanup: () => allDo((server) => server.startCleanup()),
    check: () => allDo((server) => server.check()),
    close: async () => {
      for (const server of opened.splice(0)) await server.close()
    },
  }
}

const scanSecondsMax = 3_600
/** A scan reads all events of one or many sites, and is cancelled when its caller no longer waits for it. */
const scanSettings = {
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
  max_execution_time: scanSecondsMax,
} as const

function openServerEraser(address: ClickHouseAddress): EventEraser {
  const clickHouse = openClickHouseAt(address)
  // Nothing of an answer comes before ClickHouse has finished it.
  const scans = openClickHouseAt(address, { requestTimeoutMs: (scanSecondsMax + 60) * 1_000 })

  return {
    storeTombstone: async (erased) => {
      const { params } = erasedEvents(erased)
      // The second row makes the tombstone apply to all inserts until it is retired.
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
        // Without FINAL: a later import may hide an older record, which has to go, too.
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
    startExpiry: async (sites) => {
      const expired = sites.map(({ siteId, before }, index) => ({
        sql: `(site_id = {site_id_${index}:String} AND timestamp < fromUnixTimestamp64Milli({before_${index}:Int64}, 'UTC'))`,
        params: { [`site_id_${index}`]: siteId, [`before_${index}`]: before },
      }))
      return deleteByPartition({ clickHouse, scans }, anyOf(expired))
    },
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

function anyOf(conditions: readonly RowCondition[]): RowCondition {
  return {
    sql: conditions.map(({ sql }) => sql).join(' OR '),
    params: Object.assign({}, ...conditions.map(({ params }) => params)) as QueryParams,
  }
}

async function countRows(scans: ClickHouse, table: string, { sql, params }: RowCondition): Promise<number> {
  const { rows } = await scans.query<{ rows: number }>(`SELECT count() AS rows FROM ${table} WHERE ${sql}`, params, {
    settings: scanSettings,
  })
  return rows[0]?.rows ?? 0
}

/** One DELETE for each partition that holds such rows: others need not be looked at, and inserts are not held up. */
async function deleteByPartition(
  { clickHouse, scans }: { clickHouse: ClickHouse; scans: ClickHouse },
  { sql, params }: RowCondition,
): Promise<{ partitions: number; events: number }> {
  const { rows } = await scans.query<{ partition: string; events: number }>(
    `SELECT _partition_id AS partition, count() AS events FROM events WHERE ${sql} GROUP BY partition ORDER BY partition`,
    params,
    { settings: scanSettings },
  )
  for (const { partition } of rows) {
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
