import { type AppError, internalError, isRetryable } from '@sluice/runtime/errors'
import { type ClickHouse, type ClickHouseAddress, withClickHouse } from '../clickhouse/client.ts'
import { mapServers, retiredDatabase } from '../clickhouse/cluster.ts'
import { ClickHouseError } from '../clickhouse/errors.ts'
import { checkClickHouseSchema } from '../migrate.ts'
import { checkRecordedShards, readRecordedShard, type RecordedShard, type RecordedShards } from '../store-identity.ts'
import type { ReshardServer, ReshardServers } from './servers.ts'

/** An estimate of what a server will receive: half of the sender's events, and half of its bytes minus those copied. */
export interface PlannedShard {
  server: string
  from: string
  events: number
  bytes: number
  freeBytes: number
}

/** What the check has found. */
export interface CheckedStore {
  id: string
  /**
   * Name of the store's database on each old server: the name in SLUICE_CLICKHOUSE_URL, or the one that `retire` gave
   * it.
   */
  sources: readonly string[]
  /** The shards that the servers of the cluster have recorded in the new database. */
  recorded: RecordedShards
  planned: readonly PlannedShard[]
}

/** Factor for the disk space of a copy: merges of the copied parts need space as well. */
export const defaultSpaceFactor = 1.25

/**
 * Checks the servers and their databases; changes nothing. Throws AppError, with what to do, and ClickHouseError while
 * a server can't answer. A server needs `spaceFactor` times the bytes that it gets.
 */
export async function checkReshard(servers: ReshardServers, spaceFactor: number): Promise<CheckedStore> {
  await requireOneList(servers)
  const sources = await findSources(servers)
  const id = await requireStore(servers, sources)
  await requireSchema(servers, sources)
  await requireNoOtherStore(servers)
  const recorded = await requireOwnTarget(servers, id)
  const planned = await planShards(servers, sources)
  // After `retire` no service can use either database, so an estimate must not prevent the last steps.
  if (sources.every((source) => source === servers.database)) requireSpace(planned, spaceFactor)
  return { id, sources, recorded, planned }
}

/** What `cancel` has to undo. */
export interface StartedReshard {
  /** As in `CheckedStore`. */
  sources: readonly string[]
  /** The servers that have the new database. */
  copies: readonly ReshardServer[]
  /** Those that don't answer. */
  unreachable: readonly ReshardServer[]
}

/**
 * Finds what an unfinished reshard of this store has left; changes nothing. The old servers must answer; the joining
 * servers may be unavailable. Throws AppError, with what to do, when the old servers are not those of the store, or
 * when the new database is not a copy of it.
 */
export async function findStarted(servers: ReshardServers): Promise<StartedReshard> {
  const sources = await findSources(servers)
  const id = await requireStore(servers, sources)
  const all = [...servers.old, ...servers.joining]
  const found = await mapServers(all, async (server) => {
    try {
      const recorded = await readRecordedShard(server.address)
      await requireOwnShard(server, recorded, id)
      return recorded === undefined ? 'none' : 'copy'
    } catch (error) {
      if (isRetryable(error)) return 'unreachable'
      throw error
    }
  })
  return {
    sources,
    copies: all.filter((_, index) => found[index] === 'copy'),
    unreachable: all.filter((_, index) => found[index] === 'unreachable'),
  }
}

async function requireOneList({ old, joining, target }: ReshardServers): Promise<void> {
  const all = [...old, ...joining]
  const [first = [], ...others] = await Promise.all(all.map(({ anywhere }) => membersOf(anywhere, target.cluster)))
  if (new Set(first).size < first.length) {
    throw internalError(`The cluster ${target.cluster} names a server twice. Give each shard a server of its own.`)
  }
  const other = others.findIndex((members) => members.join() !== first.join())
  if (other < 0) return
  throw internalError(
    `The ClickHouse server ${originOf(all[other + 1])} knows other servers by the name ${target.cluster} than ${originOf(all[0])}. ` +
      'Give all servers the same remote_servers.',
  )
}

/**
 * The addresses of the servers of a cluster as the configuration of one server names them, in the order of their
 * shards.
 */
async function membersOf(clickHouse: Pick<ClickHouse, 'query'>, cluster: string): Promise<readonly string[]> {
  const { rows } = await clickHouse.query<{ member: string }>(
    `SELECT concat(host_name, ':', toString(port)) AS member FROM system.clusters WHERE cluster = {cluster:String}
     ORDER BY shard_num, replica_num`,
    { cluster },
  )
  return rows.map(({ member }) => member)
}

/** The old database on each old server. The cluster must list the old servers first, in the order of their shards. */
async function findSources({ database, before, old, target }: ReshardServers): Promise<string[]> {
  const expected = await Promise.all(before.map((server) => findSource(server, database)))
  const found = await Promise.all(old.map(({ address }) => findSource(address, database)))
  const misplaced = expected.findIndex(({ identity }, shard) => found[shard]?.identity !== identity)
  if (misplaced < 0) return found.map((source) => source.database)
  throw internalError(
    `Server ${misplaced + 1} of the cluster ${target.cluster}, ${originOf(old[misplaced])}, is not the one that holds shard ` +
      `${misplaced + 1} of the store, ${before[misplaced]?.origin ?? ''}. Give the old servers the first places in ` +
      'remote_servers, in their order.',
  )
}

/**
 * The database of a store on a server, under its name before or after `retire`, and a text that identifies the server
 * and its shard. `identity` is undefined when the server has no store.
 */
async function findSource(
  server: ClickHouseAddress,
  database: string,
): Promise<{ database: string; identity: string | undefined }> {
  return withClickHouse({ ...server, database: 'default' }, async (clickHouse) => {
    const { rows } = await clickHouse.query<{ database: string }>(
      `SELECT database FROM system.tables WHERE name = 'store' AND database IN {names:Array(String)}`,
      { names: [database, retiredDatabase(database)] },
    )
    const [found, other] = rows
    if (other !== undefined) {
      throw internalError(
        `The ClickHouse server ${server.origin} has the databases ${database} and ${retiredDatabase(database)}, one of which is ` +
          'left from an earlier reshard. Drop the one that is not needed.',
      )
    }
    if (found === undefined) return { database, identity: undefined }
    const { rows: stores } = await clickHouse.query<{ identity: string }>(
      `SELECT concat(toString(serverUUID()), ' ', toString(id), ' ', toString(shard)) AS identity FROM ${found.database}.store FINAL`,
    )
    return { database: found.database, identity: stores[0]?.identity }
  })
}

/** Returns the store's UUID. */
async function requireStore({ old }: ReshardServers, sources: readonly string[]): Promise<string> {
  const addresses = old.map(({ address }, shard) => ({ ...address, database: sources[shard] ?? '' }))
  const ids = (await checkRecordedShards(addresses)).map((recorded) => recorded?.id)
  const [id] = ids
  if (id === undefined || ids.includes(undefined)) {
    throw internalError('A ClickHouse server of the store holds no shard of it. Run "npm run migrate".')
  }
  return id
}

async function requireSchema({ old }: ReshardServers, sources: readonly string[]): Promise<void> {
  for (const [shard, { address }] of old.entries()) {
    await withClickHouse({ ...address, database: sources[shard] ?? '' }, (clickHouse) =>
      checkClickHouseSchema(clickHouse),
    )
  }
}

async function requireNoOtherStore({ database, joining, target }: ReshardServers): Promise<void> {
  for (const { address } of joining) {
    const found = await findSource(address, database)
    if (found.identity === undefined) continue
    throw internalError(
      `The ClickHouse server ${address.origin} of the cluster ${target.cluster} has a store in its database ${found.database} ` +
        'already. Name a server that has none, or drop that database if it is not needed.',
    )
  }
}

/** Throws unless the new database has no tables, or was created by an unfinished reshard of this store. */
async function requireOwnTarget({ old, joining }: ReshardServers, id: string): Promise<RecordedShards> {
  const all = [...old, ...joining]
  const recorded = await checkRecordedShards(all.map(({ address }) => address)).catch((error: unknown) => {
    throw error instanceof ClickHouseError ? error : notOwn(all[0])
  })
  for (const [shard, server] of all.entries()) await requireOwnShard(server, recorded[shard], id)
  return recorded
}

async function requireOwnShard(server: ReshardServer, recorded: RecordedShard | undefined, id: string): Promise<void> {
  const isOwn = recorded === undefined ? await isFree(server) : recorded.id === id && recorded.is_closed === 1
  if (!isOwn) throw notOwn(server)
}

/** Whether a database that has no identity of a store also has no tables of another application. */
async function isFree({ anywhere, address: { database } }: ReshardServer): Promise<boolean> {
  // A command that was killed may have left that table.
  const { rows } = await anywhere.query(
    `SELECT 1 FROM system.tables WHERE database = {database:String} AND name != 'store' LIMIT 1`,
    { database },
  )
  return rows.length === 0
}

function notOwn(server: ReshardServer | undefined): AppError {
  return internalError(
    `The ClickHouse server ${originOf(server)}, or another one of its cluster, has a database ` +
      `${server?.address.database ?? ''} that this reshard did not make. Name another one by --database, or drop it if it is ` +
      'not needed.',
  )
}

async function planShards(
  { old, joining, target }: ReshardServers,
  sources: readonly string[],
): Promise<PlannedShard[]> {
  const planned: PlannedShard[] = []
  for (const servers of [old, joining]) {
    for (const [shard, server] of servers.entries()) {
      const source = old[shard]
      if (source === undefined) continue
      const { events, bytes } = await sizeOf(source, sources[shard] ?? '')
      const copied = await sizeOf(server, target.database)
      planned.push({
        server: originOf(server),
        from: originOf(source),
        events: Math.round(events / 2),
        bytes: Math.max(0, Math.round(bytes / 2) - copied.bytes),
        freeBytes: await freeBytes(server.anywhere),
      })
    }
  }
  return planned
}

async function sizeOf({ anywhere }: ReshardServer, database: string): Promise<{ events: number; bytes: number }> {
  const { rows } = await anywhere.query<{ events: number; bytes: number }>(
    `SELECT sumIf(rows, table = 'events') AS events, sum(bytes_on_disk) AS bytes
     FROM system.parts WHERE database = {database:String} AND active`,
    { database },
  )
  return rows[0] ?? { events: 0, bytes: 0 }
}

function requireSpace(planned: readonly PlannedShard[], spaceFactor: number): void {
  const full = planned.find(({ bytes, freeBytes: free }) => bytes * spaceFactor > free)
  if (full === undefined) return
  throw internalError(
    `The ClickHouse server ${full.server} has ${full.freeBytes} free bytes and needs ${Math.ceil(full.bytes * spaceFactor)}: ` +
      'what it gets is written beside what it has, and merged. Enlarge its disk.',
  )
}

/** Free bytes on the disks of the default storage policy. */
async function freeBytes(clickHouse: Pick<ClickHouse, 'query'>): Promise<number> {
  const { rows } = await clickHouse.query<{ free: number }>(
    `SELECT sum(free_space) AS free FROM system.disks WHERE name IN (
       SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = (
         SELECT any(value) FROM system.merge_tree_settings WHERE name = 'storage_policy'))`,
  )
  return rows[0]?.free ?? 0
}

function originOf(server: ReshardServer | undefined): string {
  return server?.address.origin ?? ''
}
