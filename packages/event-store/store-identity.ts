import { type AppError, internalError } from '@sluice/runtime/errors'
import { type ClickHouse, type ClickHouseAddress, type QueryParams, withClickHouse } from './clickhouse/client.ts'
import { retiredDatabase } from './clickhouse/cluster.ts'

/** Text of the error when a server that is not the only server of the store refuses an insert. */
const oneServerText =
  'SLUICE_CLICKHOUSE_URL leads to another ClickHouse server than the one that "npm run migrate" prepared or that this ' +
  'process found first. Events are stored exactly once on one server only: put its own address there, not that of a ' +
  'load balancer or of a cluster. After a move to another server, run "npm run migrate" and start the writers again.'

/** Text of the error when a server that is not the server of the insert's shard refuses it. */
const ownShardText =
  'An insert reached another ClickHouse server than that of its shard, or one whose data was moved since. Each host of the ' +
  'cluster in remote_servers must be one server, not a load balancer, and keep its place in the cluster. After a move of a ' +
  'shard to another server, run "npm run migrate" and start the writers again.'

/** Text of the error when a server refuses an insert that belongs to another one, with what an operator does. */
export function otherServerText(position: StoreTarget['position']): string {
  return position === undefined ? oneServerText : ownShardText
}

/** The store that an insert is for. */
export interface StoreTarget {
  /** UUID of the store. */
  id: string
  /** The position of the server in a cluster; undefined for the only server of a store. */
  position: ShardPosition | undefined
}

const ownServerCondition =
  "throwIf((SELECT (id, server) FROM store FINAL) != ({store:UUID}, serverUUID()), 'another server') = 0"

/** All servers of a store have its UUID, and each has its own shard number. */
const ownShardCondition =
  'throwIf((SELECT (id, server, shard, shards) FROM store FINAL) != ' +
  "({store:UUID}, serverUUID(), {shard:UInt16}, {shards:UInt16}), 'another server') = 0"

/**
 * A condition of inserts that fails on every server but the one that the store has recorded. It works no matter which
 * address or proxy the statement was sent to.
 */
export function ownStoreCondition({ position }: StoreTarget): string {
  return position === undefined ? ownServerCondition : ownShardCondition
}

/** Values of the placeholders of `ownStoreCondition`. */
export function storeParameters({ id, position }: StoreTarget): QueryParams {
  if (position === undefined) return { store: id }
  return { store: id, shard: position.shard, shards: position.shards }
}

/**
 * The only engine that stores events exactly once. The lock of an insert (its `query_id`) and the search for rows that
 * are already stored work on one server, but the tables of other engines may take inserts on several.
 */
const engineWanted = 'ReplacingMergeTree'

/** The `server` of a store that takes no inserts yet, because `npm run reshard` fills it: no server has this UUID. */
const closedServer = "toUUID('ffffffff-ffff-ffff-ffff-ffffffffffff')"

/** The position of a store's only server. */
const onlyServer: ShardPosition = { shard: 0, shards: 1 }

/**
 * The store's UUID, which `migrate` created. Throws AppError, with what to do, when the server is not the one that
 * `migrate` prepared, when it does not have the position `position`, or when `events` is a table over a cluster. Throws
 * ClickHouseError while ClickHouse can't answer.
 */
export async function readStoreId(
  clickHouse: Pick<ClickHouse, 'query' | 'address'>,
  position: ShardPosition = onlyServer,
): Promise<string> {
  const { rows } = await clickHouse.query<RecordedShard & { noted_at: string; is_own: number; engine: string }>(
    `SELECT toString(id) AS id, toString(noted_at) AS noted_at, shard, shards, server = serverUUID() AS is_own, server = ${closedServer} AS is_closed,
       (SELECT any(engine) FROM system.tables WHERE database = currentDatabase() AND name = 'events') AS engine
     FROM store FINAL`,
  )
  const [store, ...others] = rows
  if (store === undefined) {
    throw internalError('The ClickHouse table store has no row. Run "npm run migrate".')
  }
  if (others.length > 0) {
    throw internalError(
      `The ClickHouse table store has ${rows.length} rows instead of one. Leave one of them, in a copy of a store the newest: ` +
        `run "DELETE FROM ${clickHouse.address.database}.store WHERE id = '<id>'" with the id of each other one ` +
        `(${rows.map(({ id, noted_at }) => `${id} of ${noted_at}`).join(', ')}), then "npm run migrate".`,
    )
  }
  if (store.shard !== position.shard || store.shards !== position.shards) {
    throw internalError(misplacedText(clickHouse.address.origin, store, position))
  }
  if (store.is_closed === 1) {
    throw internalError(
      `The ClickHouse database ${clickHouse.address.database} is being filled by "npm run reshard". Let that command end ` +
        '(docs/scale-out.md), then start the services again.',
    )
  }
  if (store.is_own !== 1) throw internalError(otherServerText(store.shards > 1 ? store : undefined))
  // If the table is missing, inserts fail by themselves.
  if (store.engine !== '' && store.engine !== engineWanted) {
    throw internalError(
      `The ClickHouse table events has the engine ${store.engine}. Events are stored exactly once with ${engineWanted} ` +
        'only, on one server: put the address of a server with such a table into SLUICE_CLICKHOUSE_URL.',
    )
  }
  return store.id
}

/** Records the server that the store is on now. After a move it differs from the recorded one. */
export async function recordServer(clickHouse: Pick<ClickHouse, 'command'>): Promise<void> {
  // `*` selects the columns that exist: a restored store may lack the columns of the last migrations.
  await clickHouse.command(
    'INSERT INTO store SELECT * REPLACE (serverUUID() AS server, now64(3) AS noted_at) FROM store FINAL WHERE store.server != serverUUID()',
  )
}

/** The shard that a server holds, and the number of shards. */
export interface ShardPosition {
  /** From 0. */
  shard: number
  shards: number
}

/** The shard that a server holds, and the store of the shard. */
export interface ShardIdentity extends ShardPosition {
  /** UUID of the store. */
  id: string
}

/** A shard as its server has recorded it, and whether the store takes no inserts yet. */
export interface RecordedShard extends ShardIdentity {
  /** 0 or 1. */
  is_closed: number
}

/** The shard that each server has recorded; undefined on a server without a store. */
export type RecordedShards = readonly (RecordedShard | undefined)[]

/**
 * Reads the shards that a store's servers have recorded; `servers` are in the order of their shards. Throws AppError,
 * with what to do, when one of them has recorded another position or another store than the others, or had a store
 * whose events were moved. Throws ClickHouseError while the servers can't answer.
 */
export async function checkRecordedShards(servers: readonly ClickHouseAddress[]): Promise<RecordedShards> {
  const recorded = await Promise.all(servers.map(readRecordedShard))
  const shards = servers.length
  for (const [shard, found] of recorded.entries()) {
    if (found !== undefined && (found.shard !== shard || found.shards !== shards)) {
      throw internalError(misplacedText(servers[shard]?.origin ?? '', found, { shard, shards }))
    }
  }
  requireOneStore(
    recorded.flatMap((found) => (found === undefined ? [] : [found.id])),
    servers.map(({ origin }) => origin).join(', '),
  )
  return recorded
}

function requireOneStore(ids: readonly string[], servers: string): void {
  const stores = new Set(ids).size
  if (stores <= 1) return
  throw internalError(
    `The ClickHouse servers ${servers} hold shards of ${stores} stores. Name a cluster in SLUICE_CLICKHOUSE_URL whose servers ` +
      'hold one store, or none.',
  )
}

/**
 * Checks that a reader's tables contain the whole store: they are the tables over all shards, or those of the only
 * server. Throws AppError, with what to do, when they are not. Throws ClickHouseError while this is unknown.
 */
export async function checkReaderShards({ address: { origin, cluster }, query }: ClickHouse): Promise<void> {
  const { rows } = await query<ShardIdentity & { asked: number }>(
    `SELECT toString(id) AS id, shard, shards, ${cluster === undefined ? '1' : 'shardNum()'} AS asked FROM store FINAL`,
  )
  const shards = cluster === undefined ? 1 : rows.length
  for (const { asked, ...found } of rows) {
    const shard = asked - 1
    if (found.shards === shards && found.shard === shard) continue
    throw internalError(
      misplacedText(cluster === undefined ? origin : `${asked} of ${cluster}`, found, { shard, shards }),
    )
  }
  if (cluster !== undefined)
    requireOneStore(
      rows.map(({ id }) => id),
      `of ${cluster}`,
    )
}

/**
 * Throws AppError, with what to do, when a server has no store and another one has events. The server has then lost its
 * shard, and with a new, empty shard the answers would lack its events. If no server has events, a first migration was
 * interrupted.
 */
export async function requireNoLostShard(
  servers: readonly ClickHouseAddress[],
  recorded: RecordedShards,
): Promise<void> {
  const lost = servers.filter((_, shard) => recorded[shard] === undefined)
  if (lost.length === 0 || lost.length === servers.length || !(await haveEvents(servers))) return
  throw internalError(
    `The ClickHouse server ${lost[0]?.origin ?? ''} holds no shard, and other servers of its store hold events. Restore its ` +
      'data (docs/scale-out.md), or correct its host in remote_servers.',
  )
}

/**
 * Whether the servers have no store: none has the identity of a store, or events from a time before stores had an
 * identity. Throws the errors of `checkRecordedShards`.
 */
export async function hasNoStore(servers: readonly ClickHouseAddress[]): Promise<boolean> {
  const recorded = await checkRecordedShards(servers)
  return recorded.every((found) => found === undefined) && !(await haveEvents(servers))
}

/** Whether a server holds events; its database need not exist. Throws ClickHouseError. */
export async function haveEvents(servers: readonly ClickHouseAddress[]): Promise<boolean> {
  return (await Promise.all(servers.map(hasStoredEvents))).includes(true)
}

async function hasStoredEvents({ database, ...server }: ClickHouseAddress): Promise<boolean> {
  return withClickHouse({ ...server, database: 'default' }, async (clickHouse) => {
    const { rows } = await clickHouse.query<{ events: number | null }>(
      `SELECT sum(total_rows) AS events FROM system.tables WHERE database = {database:String} AND name = 'events'`,
      { database },
    )
    return (rows[0]?.events ?? 0) > 0
  })
}

/** The shard that a server has recorded; undefined without a store. Throws the errors of `checkRecordedShards`. */
export async function readRecordedShard({
  database,
  ...server
}: ClickHouseAddress): Promise<RecordedShard | undefined> {
  // The database may not exist yet.
  return withClickHouse({ ...server, database: 'default' }, async (clickHouse) => {
    const { rows: columns } = await clickHouse.query<{ name: string }>(
      `SELECT name FROM system.columns WHERE database = {database:String} AND table = 'store'`,
      { database },
    )
    if (columns.length === 0) {
      await requireNotRetired(clickHouse, database)
      return undefined
    }
    const position = columns.some(({ name }) => name === 'shards') ? 'shard, shards' : '0 AS shard, 1 AS shards'
    const { rows } = await clickHouse.query<RecordedShard>(
      `SELECT toString(id) AS id, ${position}, server = ${closedServer} AS is_closed FROM ${database}.store FINAL`,
    )
    return rows[0]
  })
}

/**
 * Throws AppError, with what to do, when `npm run reshard` has moved the events of a database to another one. Otherwise
 * `migrate` would create an empty store under the old name.
 */
async function requireNotRetired(clickHouse: ClickHouse, database: string): Promise<void> {
  const retired = retiredDatabase(database)
  const { rows } = await clickHouse.query('SELECT 1 FROM system.databases WHERE name = {retired:String}', { retired })
  if (rows.length === 0) return
  throw internalError(
    `The events of the ClickHouse database ${database} at ${clickHouse.address.origin} were moved by "npm run reshard", which ` +
      `renamed it to ${retired}. Put the database and the cluster that they were moved to into SLUICE_CLICKHOUSE_URL; if the ` +
      'command did not end, run it again (docs/scale-out.md).',
  )
}

function misplacedText(origin: string, recorded: ShardIdentity, { shard, shards }: ShardPosition): string {
  const isChanged =
    `The ClickHouse server ${origin} holds shard ${recorded.shard + 1} of ${recorded.shards} of its store, and ` +
    `SLUICE_CLICKHOUSE_URL makes it shard ${shard + 1} of ${shards}. `
  if (recorded.shards === shards) {
    return `${isChanged}Give the servers the order in remote_servers that they had when the store was made.`
  }
  const wanted =
    recorded.shards > 1
      ? `name the cluster of its ${recorded.shards} shards by "?cluster=" in SLUICE_CLICKHOUSE_URL`
      : 'take "?cluster=" out of SLUICE_CLICKHOUSE_URL, or name a cluster of new servers'
  return `${isChanged}Only "npm run reshard" changes the number of shards of a store: ${wanted}.`
}

/**
 * Records the shard of a server that has no store yet. With `isClosed`, the store takes no inserts until
 * `recordServer`.
 */
export async function recordShard(
  clickHouse: Pick<ClickHouse, 'command'>,
  identity: ShardIdentity,
  { isClosed = false } = {},
): Promise<void> {
  await clickHouse.command(
    `INSERT INTO store (id, server, shard, shards)
     SELECT {id:UUID}, ${isClosed ? closedServer : 'serverUUID()'}, {shard:UInt16}, {shards:UInt16}`,
    { params: { ...identity } },
  )
}

/** Throws AppError, with what to do, when the store of a server already takes inserts. */
export async function requireClosedStore(clickHouse: Pick<ClickHouse, 'query' | 'address'>): Promise<void> {
  const { rows } = await clickHouse.query<{ is_closed: number }>(
    `SELECT server = ${closedServer} AS is_closed FROM store FINAL`,
  )
  if (rows.length > 0 && rows.every((row) => row.is_closed === 1)) return
  throw internalError(
    `The ClickHouse database ${clickHouse.address.database} is no longer being filled: another "npm run reshard" has opened it ` +
      'meanwhile. Services may use it, so nothing is copied any more.',
  )
}

/** The error when a server of a cluster holds a part of another store than the other servers. */
export function wrongStore({ origin }: ClickHouseAddress): AppError {
  return internalError(
    `The ClickHouse server ${origin} holds a shard of another store than the other servers of its cluster. Name a cluster ` +
      'in SLUICE_CLICKHOUSE_URL whose servers hold one store.',
  )
}
