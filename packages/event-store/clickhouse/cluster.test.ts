import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type ClickHouseCluster, startClickHouseCluster } from '../../../tests/support/engines/clickhouse-cluster.ts'
import { openEventEraser } from '../erasures/event-eraser.ts'
import { openEventReader } from '../event-reader.ts'
import { migrateClickHouse, planClickHouse } from '../migrate.ts'
import { openClickHouse, parseClickHouseUrl } from './client.ts'

let cluster: ClickHouseCluster
let database: string
let url: string

beforeAll(async () => {
  cluster = await startClickHouseCluster()
})

afterAll(async () => {
  await cluster.stop()
})

beforeEach(() => {
  database = `test_${randomBytes(6).toString('hex')}`
  url = cluster.url(database)
})

afterEach(async () => {
  await cluster.drop(database)
})

async function query<Row>(server: string, sql: string): Promise<Row[]> {
  const clickHouse = openClickHouse(server)
  try {
    return (await clickHouse.query<Row>(sql)).rows
  } finally {
    await clickHouse.close()
  }
}

async function command(server: string, sql: string): Promise<void> {
  const clickHouse = openClickHouse(server)
  try {
    await clickHouse.command(sql)
  } finally {
    await clickHouse.close()
  }
}

const serverUrls = (): string[] => cluster.servers.map((server) => server.url(database))
const withCluster = (name: string): string => {
  const changed = new URL(url)
  changed.searchParams.set('cluster', name)
  return changed.href
}
const databases = async (): Promise<number> => {
  const found = await Promise.all(
    cluster.servers.map((server) =>
      query<{ found: number }>(
        server.url('default'),
        `SELECT count() AS found FROM system.databases WHERE name LIKE '${database}%'`,
      ),
    ),
  )
  return found.flat().reduce((sum, row) => sum + row.found, 0)
}
const refused = (text: RegExp): unknown =>
  expect.objectContaining({ code: 'internal', internal: expect.stringMatching(text) as unknown })

test('every server of a cluster gets the same tables and the store, with its own number', async () => {
  expect(await migrateClickHouse(url)).toContain('001-events')
  const stores = await Promise.all(
    serverUrls().map((server) =>
      query<{ id: string; place: string }>(server, "SELECT id, concat(shard, ' of ', shards) AS place FROM store"),
    ),
  )
  const [[first], [second]] = stores as [[{ id: string; place: string }], [{ id: string; place: string }]]
  expect([first.place, second.place]).toStrictEqual(['0 of 2', '1 of 2'])
  expect(first.id).toBe(second.id)
  expect(await migrateClickHouse(url)).toStrictEqual([])
})

test('builds that know no shards are refused by every server', async () => {
  await migrateClickHouse(url)
  await migrateClickHouse(url)
  for (const server of serverUrls()) {
    const rows = await query(
      server,
      'SELECT max(oldest_build) AS oldest, count() - uniqExact(name) AS more FROM schema_migrations',
    )
    expect(rows).toStrictEqual([{ oldest: 2, more: 1 }])
  }
})

test('the tables of the second database reach all shards, from every server', async () => {
  await migrateClickHouse(url)
  for (const [index, server] of serverUrls().entries()) {
    await command(
      server,
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
       SELECT 's', 'prod', 'view', now64(3), toString(${index} * 100 + number), now64(3) FROM numbers(${index + 1})`,
    )
  }
  for (const server of cluster.servers) {
    const rows = await query(server.url(`${database}_shards`), `SELECT count() AS events FROM events WHERE site = 's'`)
    expect(rows).toStrictEqual([{ events: 3 }])
  }
})

test('a migration that ended on the first server goes on with the same store', async () => {
  await migrateClickHouse(url)
  const [id] = await query<{ id: string }>(cluster.servers[0]?.url(database) ?? '', 'SELECT id FROM store')
  await command(cluster.servers[1]?.url('default') ?? '', `DROP DATABASE ${database} SYNC`)
  await migrateClickHouse(url)
  for (const server of serverUrls()) expect(await query(server, 'SELECT DISTINCT id FROM store')).toStrictEqual([id])
})

test('a server that has lost its shard is refused, and gets no new one', async () => {
  await migrateClickHouse(url)
  const [first, second] = cluster.servers
  await command(
    first?.url(database) ?? '',
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
     VALUES ('s', 'prod', 'view', now64(3), 'e', now64(3))`,
  )
  await command(second?.url('default') ?? '', `DROP DATABASE ${database} SYNC`)
  await expect(migrateClickHouse(url)).rejects.toEqual(refused(/holds no shard, and other servers .* Restore its data/))
  await expect(planClickHouse(url)).rejects.toEqual(refused(/holds no shard/))
  expect(
    await query(second?.url('default') ?? '', `SELECT 1 FROM system.databases WHERE name = '${database}'`),
  ).toStrictEqual([])
})

test('a plan names the statements of each server', async () => {
  const planned = await planClickHouse(url)
  expect(planned.map(({ server }) => server)).toStrictEqual(serverUrls().map((server) => new URL(server).origin))
  for (const { migrations } of planned) expect(migrations.map(({ name }) => name)).toContain('010-shards')
  expect(await databases()).toBe(0)
})

test('a cluster that the server does not know is refused with those that it knows, and nothing is changed', async () => {
  await expect(migrateClickHouse(withCluster('other'))).rejects.toEqual(
    refused(/does not know the cluster other\. It knows: test_shards\. Correct the name/),
  )
  expect(await databases()).toBe(0)
})

test('an error of one server names it', async () => {
  await migrateClickHouse(url)
  const [, second = ''] = serverUrls()
  await command(second, 'DROP TABLE erasures')
  const eraser = openEventEraser(url)
  const erased = {
    erasureId: 'era_1',
    siteId: 'shop',
    kind: 'before',
    hashes: null,
    before: 1,
    requestedAt: 1,
  } as const
  const stored = eraser.storeTombstone(erased).finally(() => eraser.close())
  await expect(stored).rejects.toMatchObject({
    internal: expect.stringMatching(new RegExp(`^ClickHouse at ${new URL(second).origin}: .*erasures`)),
  })
})

test('a name that can be no cluster is refused before anything is opened', () => {
  expect(() => parseClickHouseUrl("http://h/d?cluster=a'b")).toThrow('"cluster" must be a name of letters')
})

test.each([
  ['clsuter=events', 'unknown parameter (known: ca, cluster)'],
  ['cluster=a&database=b', 'unknown parameter (known: ca, cluster)'],
  ['cluster=a&cluster=b', 'the parameter "cluster" is given twice'],
])('a URL with ?%s is refused, which without the parameter would mean one server', (query, mistake) => {
  expect(() => parseClickHouseUrl(`http://h/d?${query}`)).toThrow(new TypeError(mistake))
})

describe('a store whose servers noted other places', () => {
  test('is refused without the cluster, and with the sentence on what to do', async () => {
    await migrateClickHouse(url)
    const alone = cluster.servers[1]?.url(database) ?? ''
    await expect(migrateClickHouse(alone)).rejects.toEqual(
      refused(
        /holds shard 2 of 2 .* makes it shard 1 of 1\. Only .* changes the number of shards .*: name the cluster/,
      ),
    )
    await expect(planClickHouse(alone)).rejects.toEqual(refused(/changes the number of shards/))
  })

  test('is refused when the cluster has them in another order', async () => {
    await migrateClickHouse(url)
    for (const server of serverUrls())
      await command(server, 'INSERT INTO store SELECT id, server, 1 - shard, shards, now64(3) FROM store')
    await expect(migrateClickHouse(url)).rejects.toEqual(
      refused(/shard 2 of 2 .* shard 1 of 2\. Give the servers the order/),
    )
  })

  test('is refused when one of them was the only server of a store', async () => {
    await migrateClickHouse(cluster.servers[1]?.url(database) ?? '')
    await expect(migrateClickHouse(url)).rejects.toEqual(refused(/holds shard 1 of 1 .* take "\?cluster=" out/))
    expect(await databases()).toBe(1)
  })

  test('is refused when they hold two stores', async () => {
    await migrateClickHouse(url)
    await command(cluster.servers[1]?.url(database) ?? '', 'TRUNCATE TABLE store')
    await command(
      cluster.servers[1]?.url(database) ?? '',
      'INSERT INTO store (id, server, shard, shards) SELECT generateUUIDv4(), serverUUID(), 1, 2',
    )
    await expect(migrateClickHouse(url)).rejects.toEqual(refused(/hold shards of 2 stores/))
    const reader = openEventReader(cluster.url(database, 'sluice_reader'))
    await expect(reader.checkSchema()).rejects.toEqual(refused(/hold shards of 2 stores/))
    await reader.close()
  })
})

describe('readers', () => {
  async function checkSchema(readerUrl: string): Promise<void> {
    const reader = openEventReader(readerUrl)
    try {
      await reader.checkSchema()
    } finally {
      await reader.close()
    }
  }

  test('refuse a cluster that is not migrated, and one of whose servers lacks a migration', async () => {
    const reader = cluster.url(database, 'sluice_reader')
    await expect(checkSchema(reader)).rejects.toEqual(refused(/missing: 001-events.* Run "npm run migrate"/))
    await migrateClickHouse(url)
    await checkSchema(reader)
    await command(
      cluster.servers[1]?.url(database) ?? '',
      `ALTER TABLE schema_migrations DELETE WHERE name = '010-shards' SETTINGS mutations_sync = 2`,
    )
    await expect(checkSchema(reader)).rejects.toEqual(refused(/missing: 010-shards\)\. Run "npm run migrate"/))
  })

  test('refuse a URL that leads to one shard alone, and servers that are not those of one store', async () => {
    await migrateClickHouse(url)
    await expect(checkSchema(cluster.servers[1]?.url(database) ?? '')).rejects.toEqual(
      refused(/holds shard 2 of 2 .* name the cluster of its 2 shards/),
    )
    await command(
      cluster.servers[1]?.url(database) ?? '',
      'INSERT INTO store SELECT id, server, 0, shards, now64(3) FROM store',
    )
    await expect(checkSchema(cluster.url(database, 'sluice_reader'))).rejects.toEqual(
      refused(/holds shard 1 of 2 .* makes it shard 2 of 2/),
    )
  })
})

test('a cluster with replicas is refused', async () => {
  const replicated = await startClickHouseCluster({ shards: 1, replicas: 2 })
  try {
    await expect(migrateClickHouse(replicated.url(database))).rejects.toEqual(
      refused(/more than one replica of a shard/),
    )
  } finally {
    await replicated.stop()
  }
})

test('a number of shards that is no power of two is refused', async () => {
  const three = await startClickHouseCluster({ shards: 3 })
  try {
    await expect(migrateClickHouse(three.url(database))).rejects.toEqual(
      refused(/has 3 shards.* must be a power of two/),
    )
  } finally {
    await three.stop()
  }
})
