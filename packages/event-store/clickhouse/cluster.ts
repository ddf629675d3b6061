import { type AppError, internalError } from '@sluice/runtime/errors'
import { untilSuccessful } from '@sluice/runtime/once'
import {
  type ClickHouse,
  type ClickHouseAddress,
  type ClientOptions,
  openClickHouseAt,
  withClickHouse,
} from './client.ts'

/**
 * Name of the database with the tables over all shards of `database`. `migrate` creates it on every server of a
 * cluster.
 */
export function shardsDatabase(database: string): string {
  return `${database}_shards`
}

/** A table of that database. It has the rows of the table function `mergeTreeIndex` of all shards. */
export const granulesTable = 'event_granules'

/** The name that `npm run reshard` gives the old database of a store before it copies the last events to the new. */
export function retiredDatabase(database: string): string {
  return `${database}_before_reshard`
}

/**
 * The address for statements on all events: the database whose tables are over all shards, or the only server's own.
 */
export function readingAddress(address: ClickHouseAddress): ClickHouseAddress {
  return address.cluster === undefined ? address : { ...address, database: shardsDatabase(address.database) }
}

/**
 * The servers of a store, in the order of their shards: those of the cluster `?cluster=`, or the server of the URL.
 * Their database holds the local tables. Throws AppError, with what to do, when the URL's server does not know the
 * cluster, when a shard has replicas, or when the number of shards is not a power of two. Throws ClickHouseError while
 * the server can't answer.
 */
export async function storeServers({
  cluster,
  ...address
}: ClickHouseAddress): Promise<readonly [ClickHouseAddress, ...ClickHouseAddress[]]> {
  if (cluster === undefined) return [address]
  // The database may not exist yet.
  return withClickHouse({ ...address, database: 'default' }, async (clickHouse) => {
    const { rows } = await clickHouse.query<{ cluster: string; host: string; shard: number }>(
      'SELECT cluster, host_name AS host, shard_num AS shard FROM system.clusters ORDER BY cluster, shard_num, replica_num',
    )
    const members = rows.filter((row) => row.cluster === cluster)
    const [first, ...others] = members.map(({ host }) => ({
      ...address,
      origin: withHost(address.origin, host),
      isShard: true as const,
    }))
    if (first === undefined) throw unknownCluster(cluster, address, [...new Set(rows.map((row) => row.cluster))])
    const shards = new Set(members.map(({ shard }) => shard)).size
    if (shards < members.length) {
      throw internalError(
        `The ClickHouse cluster ${cluster} has more than one replica of a shard. Sluice stores events exactly once on one ` +
          'server a shard only: name a cluster with one replica a shard.',
      )
    }
    if (!Number.isInteger(Math.log2(shards))) {
      throw internalError(
        `The ClickHouse cluster ${cluster} has ${shards} shards. The number of shards must be a power of two: ` +
          'change remote_servers in the configuration of ClickHouse.',
      )
    }
    return [first, ...others] as const
  })
}

/** Clients of `storeServers`. */
export async function openStoreServers(
  address: ClickHouseAddress,
  options?: ClientOptions,
): Promise<readonly ClickHouse[]> {
  return (await storeServers(address)).map((server) => openClickHouseAt(server, options))
}

/**
 * Creates the tables over all shards on every server, because services may query any of them. Existing tables are
 * replaced, so that they get the columns of the local tables. Every shard holds all `users`, so a join needs no other
 * server.
 */
export async function createShardsTables(servers: readonly ClickHouseAddress[], cluster: string): Promise<void> {
  for (const { database, ...server } of servers) {
    const shards = shardsDatabase(database)
    const clickHouse = openClickHouseAt({ ...server, database: 'default' })
    const overShards = (table: string, of: string, local: string): Promise<void> =>
      clickHouse.command(
        `CREATE OR REPLACE TABLE ${shards}.${table} AS ${of}.${local} ENGINE = Distributed('${cluster}', '${of}', '${local}')`,
      )
    try {
      await clickHouse.command(`CREATE DATABASE IF NOT EXISTS ${shards}`)
      for (const table of ['events', 'store', 'schema_migrations']) await overShards(table, database, table)
      await clickHouse.command(
        `CREATE OR REPLACE TABLE ${shards}.users AS ${database}.users ENGINE = Merge('${database}', '^users$')`,
      )
      await clickHouse.command(
        `CREATE OR REPLACE VIEW ${shards}.local_granules AS
         SELECT site_id, timestamp, rows_in_granule FROM mergeTreeIndex('${database}', 'events')`,
      )
      await overShards(granulesTable, shards, 'local_granules')
    } finally {
      await clickHouse.close()
    }
  }
}

function withHost(origin: string, host: string): string {
  const url = new URL(origin)
  // ClickHouse names an IPv6 address without the brackets that a URL needs.
  url.hostname = host.includes(':') ? `[${host}]` : host
  return url.origin
}

function unknownCluster(cluster: string, { origin }: ClickHouseAddress, known: readonly string[]): AppError {
  const knows = known.length === 0 ? 'It knows no cluster' : `It knows: ${known.join(', ')}`
  return internalError(
    `ClickHouse at ${origin} does not know the cluster ${cluster}. ${knows}. Correct the name, or ` +
      'add the cluster to remote_servers in the configuration of ClickHouse.',
  )
}

/** Every server does the work, even if another one fails. Throws the first failure. */
export async function mapServers<Server, T>(
  servers: readonly Server[],
  work: (server: Server, index: number) => Promise<T>,
): Promise<T[]> {
  const working = servers.map(work)
  await Promise.allSettled(working)
  return Promise.all(working)
}

/** Servers of a store that are opened at the first use, once for all callers; after a failure, at the next use. */
export function lazyServers<Server extends { close(): Promise<void> }>(open: () => Promise<Server[]>) {
  let opened: Server[] = []
  const all = untilSuccessful(async (): Promise<readonly Server[]> => (opened = await open()))
  return {
    /** The servers in the order of their shards. */
    all,
    map: async <T>(work: (server: Server, shard: number) => Promise<T>): Promise<T[]> => mapServers(await all(), work),
    /** `map` for work without a result. */
    forEach: async (work: (server: Server, shard: number) => Promise<void>): Promise<void> => {
      await mapServers(await all(), work)
    },
    /** Closes the servers that were opened. A second call has no effect. */
    close: async (): Promise<void> => {
      for (const server of opened.splice(0)) await server.close()
    },
  }
}
