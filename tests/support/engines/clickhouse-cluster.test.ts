import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { type ClickHouseCluster, startClickHouseCluster } from './clickhouse-cluster.ts'

let cluster: ClickHouseCluster

beforeAll(async () => {
  cluster = await startClickHouseCluster()
})

afterAll(async () => {
  await cluster.stop()
})

// Such a client reliably causes an exception in the thread of a connection; a reset of the connection does so only at a
// certain moment.
test('a server goes on when a client sends what is not its protocol', async () => {
  const [server] = cluster.servers
  const clickHouse = openClickHouse(server?.url('default') ?? '')
  try {
    const { rows } = await clickHouse.query<{ port: number }>('SELECT port FROM system.clusters WHERE shard_num = 1')
    const socket = connect(rows[0]?.port ?? 0, '127.0.0.1')
    socket.end(Buffer.alloc(64, 77)).resume()
    await once(socket, 'close')
    expect((await clickHouse.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  } finally {
    await clickHouse.close()
  }
})
