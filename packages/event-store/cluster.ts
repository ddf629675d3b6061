import { AppError } from '@sluice/runtime/errors'
import { type ClickHouse, type ClickHouseAddress, type ClientOptions, openClickHouseAt } from './client.ts'

/** The database of the tables that reach all shards of a database: `migrate` makes one on every server of a cluster. */
export function shardsDatabase(database: string): string {
  return `${database}_shards`
}

/** Where questions about all events go: to a server whose tables reach the others, or to the only one. */
export function readingAddress({ cluster, ...address }: ClickHouseAddress): ClickHouseAddress {
  return cluster === undefined ? address : { ...address, database: shardsDatabase(address.database) }
}

/**
 * The servers of a store in the order of their shards, each with the store's local tables in its database: those of
 * `?cluster=`, or the one of the URL. Throws AppError, with what to do, when the URL's server does not know the cluster, when
 * a shard has replicas, or when the number of shards is no power of two; ClickHouseError while the server can't answer.
 */
export async function storeServers({
  cluster,
  ...address
}: ClickHouseAddress): Promise<readonly [ClickHouseAddress, ...ClickHouseAddress[]]> {
  if (cluster === undefined) return [address]
  // The database may not exist yet.
  const clickHouse = openClickHouseAt({ ...address, database: 'default' })
  try {
    const { rows } = await clickHouse.query<{ cluster: string; host: string; shard: number }>(
      'SELECT cluster, host_name AS host, shard_num AS shard FROM system.clusters ORDER BY cluster, shard_num, replica_num',
    )
    const members = rows.filter((row) => row.cluster === cluster)
    const [first, ...others] = members.map(({ host }) => ({ ...address, origin: withHost(address.origin, host) }))
    if (first === undefined) throw unknownCluster(cluster, address, [...new Set(rows.map((row) => row.cluster))])
    const shards = new Set(members.map(({ shard }) => shard)).size
    if (shards < members.length) {
      throw wrongCluster(
        `The ClickHouse cluster ${cluster} has more than one replica of a shard. Sluice stores events exactly once on one ` +
          'server a shard only: name a cluster with one replica a shard in SLUICE_CLICKHOUSE_URL.',
      )
    }
    if (!Number.isInteger(Math.log2(shards))) {
      throw wrongCluster(
        `The ClickHouse cluster ${cluster} has ${shards} shards. The number of shards must be a power of two: ` +
          'change remote_servers in the configuration of ClickHouse.',
      )
    }
    return [first, ...others]
  } finally {
    await clickHouse.close()
  }
}

/** Clients of `storeServers`. */
export async function openStoreServers(
  address: ClickHouseAddress,
  options?: ClientOptions,
): Promise<readonly ClickHouse[]> {
  return (await storeServers(address)).map((server) => openClickHouseAt(server, options))
}

function withHost(origin: string, host: string): string {
  const url = new URL(origin)
  // ClickHouse names an IPv6 address without the brackets that a URL needs.
  url.hostname = host.includes(':') ? `[${host}]` : host
  return url.origin
}

function unknownCluster(cluster: string, { origin }: ClickHouseAddress, known: readonly string[]): AppError {
  const knows = known.length === 0 ? 'It knows no cluster' : `It knows: ${known.join(', ')}`
  return wrongCluster(
    `ClickHouse at ${origin} does not know the cluster ${cluster} of SLUICE_CLICKHOUSE_URL. ${knows}. Correct the name, or ` +
      'add the cluster to remote_servers in the configuration of ClickHouse.',
  )
}

/** An error of a store whose servers don't fit; `internal` says what to do. */
export function wrongCluster(internal: string): AppError {
  return new AppError('internal', { message: 'Internal server error', internal })
}
