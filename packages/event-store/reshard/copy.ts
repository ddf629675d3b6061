import type { ClickHouse } from '../clickhouse/client.ts'
import { eventColumnNames } from '../insert/event-table-structure.ts'
import { userColumns } from '../insert/insert-users.ts'
import { requireClosedStore } from '../store-identity.ts'
import { keyHashSql } from './key-hash-sql.ts'
import type { ReshardServer, ReshardTarget } from './servers.ts'

/**
 * An old server as the source of a copy. It sends half of its events to each of two servers, and all of its users and
 * tombstones to both.
 */
export interface Source {
  server: ReshardServer
  /** The database that holds its shard. */
  database: string
  /** The number of shards before the doubling. */
  shards: number
  target: ReshardTarget
}

/** A server that receives a half, with the number of its shard in the cluster, from 0. */
export interface Receiver {
  server: ReshardServer
  shard: number
}

type Say = (line: string) => void

/**
 * Number of rows and sum of their hashes, for each partition of a table. Partitions with equal fingerprints have the
 * same rows.
 */
type Fingerprints = ReadonlyMap<string, string>

/**
 * The fields identify an event and its copy: after an erasure, another copy of an event with the same id may be stored.
 */
const eventHash = 'cityHash64(site_id, environment, event_id, timestamp, received_at)'

/** The tables that every shard holds completely, with their columns and the condition for the rows that count. */
const wholeTables = {
  users: { columns: userColumns, rows: 'FINAL' },
  erasures: {
    columns: 'erasure_id, site_id, key, requested_at, before, applies_until',
    // The TTL of the table (migrations/008-erasures.sql). Servers remove an expired row at different times.
    rows: "FINAL WHERE toDateTime(intDiv(requested_at, 1000), 'UTC') + INTERVAL 400 DAY > now()",
  },
} as const

/**
 * Copies the partitions of events that differ from those of the source, and the other tables if they differ. Returns
 * the number of copied partitions and tables. The rows go directly from server to server.
 */
export async function copyFrom(source: Source, receivers: readonly [Receiver, Receiver], say: Say): Promise<number> {
  const halves = await eventsByHalf(source)
  let copied = 0
  for (const [half, receiver] of receivers.entries()) {
    copied += await copyEvents(source, receiver, { half, wanted: halves.get(half) ?? new Map<string, string>() }, say)
    copied += await copyWholeTable(source, receiver, 'users', say)
    copied += await copyWholeTable(source, receiver, 'erasures', say)
  }
  return copied
}

/**
 * SQL of the half of its shard that an event belongs to: the bit in which `hash % (2 * shards)` differs from
 * `hash % shards`. An event that is not on the shard of its hash belongs to one of the halves too, so it is not lost.
 */
function halfSql({ shards }: Source): string {
  return `intDiv(${keyHashSql('site_id', 'event_id')}, ${shards}) % 2`
}

async function eventsByHalf(source: Source): Promise<ReadonlyMap<number, Fingerprints>> {
  const { rows } = await source.server.anywhere.query<{ half: number; part: string; fingerprint: string }>(
    `SELECT ${halfSql(source)} AS half, _partition_id AS part, ${fingerprintSql(eventHash)} AS fingerprint
     FROM ${source.database}.events GROUP BY half, part`,
  )
  const byHalf = Map.groupBy(rows, ({ half }) => half)
  return new Map([...byHalf].map(([half, of]) => [half, new Map(of.map((row) => [row.part, row.fingerprint]))]))
}

async function storedEvents({ server }: Receiver): Promise<Fingerprints> {
  const { rows } = await server.clickHouse.query<{ part: string; fingerprint: string }>(
    `SELECT _partition_id AS part, ${fingerprintSql(eventHash)} AS fingerprint FROM events GROUP BY part`,
  )
  return new Map(rows.map(({ part, fingerprint }) => [part, fingerprint]))
}

async function copyEvents(
  source: Source,
  receiver: Receiver,
  { half, wanted }: { half: number; wanted: Fingerprints },
  say: Say,
): Promise<number> {
  const stored = await storedEvents(receiver)
  const months = [...new Set([...wanted.keys(), ...stored.keys()])].sort()
  const differing = months.filter((month) => wanted.get(month) !== stored.get(month))
  for (const [index, month] of differing.entries()) {
    await requireClosedStore(receiver.server.clickHouse)
    // The partition's value is a number: the year, or the year and month (insert/table-partition.ts).
    const partition = Number(month)
    if (stored.has(month)) {
      await receiver.server.clickHouse.command(`ALTER TABLE events DROP PARTITION ${partition}`)
    }
    if (wanted.has(month)) {
      await send(source, receiver, {
        table: 'events',
        columns: eventColumnNames,
        rows: `WHERE _partition_id = '${partition}' AND ${halfSql(source)} = ${half}`,
      })
    }
    say(`${receiver.server.address.origin}: events of ${partition} are copied (${index + 1} of ${differing.length})`)
  }
  return differing.length
}

async function copyWholeTable(
  source: Source,
  receiver: Receiver,
  table: keyof typeof wholeTables,
  say: Say,
): Promise<number> {
  const { columns, rows } = wholeTables[table]
  const fingerprintOf = async (
    clickHouse: Pick<ClickHouse, 'query'>,
    database: string,
  ): Promise<string | undefined> => {
    const found = await clickHouse.query<{ fingerprint: string }>(
      `SELECT ${fingerprintSql(`cityHash64(${columns})`)} AS fingerprint FROM ${database}.${table} ${rows}`,
    )
    return found.rows[0]?.fingerprint
  }
  const wanted = await fingerprintOf(source.server.anywhere, source.database)
  if (wanted === (await fingerprintOf(receiver.server.clickHouse, source.target.database))) return 0
  await requireClosedStore(receiver.server.clickHouse)
  await receiver.server.clickHouse.command(`TRUNCATE TABLE ${table}`)
  await send(source, receiver, { table, columns, rows })
  say(`${receiver.server.address.origin}: ${table} are copied`)
  return 1
}

/** A text, because JavaScript would round 64-bit numbers. */
function fingerprintSql(hash: string): string {
  return `concat(toString(count()), ' ', toString(sum(${hash})))`
}

/** The source sends rows to the receiver, which has stored them when the statement ends. */
async function send(
  { server, database, target }: Source,
  { shard }: Receiver,
  { table, columns, rows }: { table: string; columns: string; rows: string },
): Promise<void> {
  await server.clickHouse.command(
    `INSERT INTO FUNCTION cluster('${target.cluster}', '${target.database}', '${table}') (${columns})
     SELECT ${columns} FROM ${database}.${table} ${rows}`,
    {
      settings: {
        insert_shard_id: String(shard + 1),
        distributed_foreground_insert: 1,
        async_insert: 0,
        insert_deduplicate: 0,
        // This setting would merge copies within a block, which costs more than the insert. There are no copies.
        optimize_on_insert: 0,
      },
    },
  )
}
