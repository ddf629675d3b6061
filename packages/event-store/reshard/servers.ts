import { internalError, internalMessage } from '@sluice/runtime/errors'
import { type ClickHouse, type ClickHouseAddress, openClickHouseAt, parseClickHouseUrl } from '../clickhouse/client.ts'
import { retiredDatabase, shardsDatabase, storeServers } from '../clickhouse/cluster.ts'
import { dropSettings } from '../clickhouse/strict-settings.ts'

/** The target of a reshard: a cluster of twice as many shards, and a database with a new name on all its servers. */
export interface ReshardTarget {
  cluster: string
  database: string
}

/** A server of the cluster that will hold a shard. */
export interface ReshardServer {
  /** The new database on the server. It may not exist yet. */
  address: ClickHouseAddress
  /** A client whose statements name their database themselves. */
  anywhere: ClickHouse
  /** A client whose current database is the new one, so that its statements can be found by that name. */
  clickHouse: ClickHouse
}

/** The servers of a store whose number of shards is doubled. */
export interface ReshardServers {
  /** SLUICE_CLICKHOUSE_URL after the doubling. */
  url: string
  /** The name of the store's database before `retire` renames it. */
  database: string
  target: ReshardTarget
  /** The old servers with the addresses of SLUICE_CLICKHOUSE_URL. */
  before: readonly ClickHouseAddress[]
  /** The old servers with the addresses of the target cluster, in the order of their shards. */
  old: readonly ReshardServer[]
  /** The joining servers. Each gets half of the events of the server at the same index of `old`. */
  joining: readonly ReshardServer[]
  close(): Promise<void>
}

/** A comparison or a copy may take hours. A repeated copy drops partitions of any size. */
const noLimits = { requestTimeoutMs: 24 * 3_600_000, settings: { ...dropSettings, max_execution_time: 0 } }

/** Throws AppError, with what to do, when the names or the number of servers don't fit; ClickHouseError. */
export async function openReshardServers(url: string, target: ReshardTarget): Promise<ReshardServers> {
  const address = parseClickHouseUrl(url)
  requireNewName(address.database, target.database)
  const newUrl = urlOf(url, target)
  const before = await storeServers(address)
  const after = await storeServers({ ...address, cluster: target.cluster })
  const shards = before.length
  if (after.length !== 2 * shards) {
    throw internalError(
      `SLUICE_CLICKHOUSE_URL leads to ${shards} ${shards === 1 ? 'server' : 'shards'}, and the cluster ${target.cluster} has ` +
        `${after.length}. The number is doubled: name a cluster of ${2 * shards} servers, of which the first ` +
        `${shards === 1 ? 'one is the old one' : `${shards} are the old ones`}.`,
    )
  }
  const servers = after.map((server) => {
    const own = { ...server, database: target.database }
    return {
      address: own,
      anywhere: openClickHouseAt({ ...server, database: 'default' }, noLimits),
      clickHouse: openClickHouseAt(own, noLimits),
    }
  })
  return {
    url: newUrl,
    database: address.database,
    target,
    before,
    old: servers.slice(0, shards),
    joining: servers.slice(shards),
    close: async () => {
      for (const { anywhere, clickHouse } of servers) await Promise.all([anywhere.close(), clickHouse.close()])
    },
  }
}

/** The URL of services after the doubling. Throws when services would refuse it. */
function urlOf(url: string, { cluster, database }: ReshardTarget): string {
  const changed = new URL(url)
  changed.pathname = `/${database}`
  changed.searchParams.set('cluster', cluster)
  try {
    parseClickHouseUrl(changed.href)
  } catch (error) {
    throw internalError(`--to ${cluster}: ${internalMessage(error)}`)
  }
  return changed.href
}

/** Databases that every server has. */
const systemDatabases = ['default', 'system', 'information_schema']

function requireNewName(database: string, name: string): void {
  const taken = [database, retiredDatabase(database), shardsDatabase(database)]
  const isTaken = taken.includes(name) || systemDatabases.includes(name.toLowerCase())
  if (/^[a-z_]\w*$/i.test(name) && !isTaken) return
  throw internalError(
    `--database ${name} is not a valid name of a new database: give one of letters, digits and underscores that begins with no digit, and another than ` +
      `${database}, so that no service takes a part of the events for all of them.`,
  )
}
