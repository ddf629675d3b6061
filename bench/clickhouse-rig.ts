import { startClickHouse } from '@sluice/engines/clickhouse'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { waitUntil } from '@sluice/runtime/wait-until'

/** A ClickHouse for a benchmark, with counters of its work. */
export interface ClickHouseRig {
  /** Creates a migrated database of this name, which must begin with `sluice`. */
  database(name: string): Promise<{ url: string; clickHouse: ClickHouse }>
  /** Seconds of CPU that all its threads have used so far, merges included. */
  cpuSeconds(): Promise<number>
  /** Rows and uncompressed bytes that its queries have read so far. */
  read(): Promise<{ rows: number; bytes: number }>
  /** Resolves when no merge runs any more, or after a minute. */
  settle(): Promise<void>
  stop(): Promise<void>
}

export async function startClickHouseRig(dir: string): Promise<ClickHouseRig> {
  const engine = await startClickHouse({ dir })
  const server = openClickHouse(new URL('/default', engine.url).href)
  const opened: ClickHouse[] = [server]
  const number = async (sql: string): Promise<number> => {
    const { rows } = await server.query<{ value: number }>(sql)
    return rows[0]?.value ?? 0
  }
  return {
    database: async (name) => {
      const url = new URL(`/${name}`, engine.url).href
      await migrateClickHouse(url)
      // Statements that fill a table take longer than a request may by default.
      const clickHouse = openClickHouse(url, { requestTimeoutMs: 600_000 })
      opened.push(clickHouse)
      return { url, clickHouse }
    },
    // The embedded server keeps no query log; its counters hold the same events.
    cpuSeconds: async () =>
      (await number(`SELECT sum(value) AS value FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'`)) /
      1e6,
    read: async () => {
      const of = (event: string) => number(`SELECT sum(value) AS value FROM system.events WHERE event = '${event}'`)
      return { rows: await of('SelectedRows'), bytes: await of('SelectedBytes') }
    },
    settle: () =>
      waitUntil(
        async () => (await number('SELECT count() AS value FROM system.merges')) === 0,
        'merges end',
        60_000,
      ).catch(() => undefined),
    stop: async () => {
      await Promise.all(opened.map((client) => client.close()))
      await engine.stop()
    },
  }
}
