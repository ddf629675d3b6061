import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { AppError } from '@sluice/runtime/errors'
import {
  type BalancedClickHouses,
  startBalancedClickHouses,
} from '../../../tests/support/engines/balanced-clickhouses.ts'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { migrateClickHouse } from '../migrate.ts'
import { type EventInserter, openEventInserter } from './event-inserter.ts'

const noon = Date.UTC(2024, 4, 15, 12)

function insertOf(inserter: EventInserter, id: string): Promise<{ inserted: number }> {
  const row = {
    site_id: 'site',
    environment: 'prod',
    event_type: 'view',
    timestamp: noon,
    event_id: id,
    received_at: noon,
  }
  const payloads = [Buffer.from(`${JSON.stringify(row)}\n`)]
  return inserter.insert(
    { payloads, hasUndated: false },
    { queryId: id, shouldReplaceRunning: false, timeoutMs: 20_000 },
  )
}

async function countEvents(clickHouse: ClickHouse): Promise<number> {
  const { rows } = await clickHouse.query<{ count: number }>('SELECT count() AS count FROM events')
  return rows[0]?.count ?? -1
}

describe('two servers behind one address', () => {
  let servers: BalancedClickHouses
  let clients: ClickHouse[] = []

  beforeAll(async () => {
    servers = await startBalancedClickHouses()
    for (const url of servers.urls) await migrateClickHouse(url)
    clients = servers.urls.map((url) => openClickHouse(url))
  })

  afterAll(async () => {
    for (const client of clients) await client.close()
    await servers.stop()
  })

  test('only the one that the writer found first takes inserts, and the other refuses with what to do', async () => {
    const inserter = openEventInserter(servers.balancedUrl)
    const ids = Array.from({ length: 6 }, (_, n) => `event-${n}`)
    const results = await Promise.allSettled(ids.map((id) => insertOf(inserter, id)))
    const refusals = results.filter((result) => result.status === 'rejected').map(({ reason }) => reason as Error)
    const counts = await Promise.all(clients.map(countEvents))
    await inserter.close()

    expect([...counts].sort()).toStrictEqual([0, ids.length - refusals.length])
    expect(refusals.length).toBeGreaterThan(0)
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({
        retryable: false,
        needsOperator: true,
        isBadData: false,
        internal: expect.stringMatching(/another ClickHouse server .* put its own address there, not that of a load/),
      })
    }
  })
})

describe('the store', () => {
  let database: TestClickHouse
  let clickHouse: ClickHouse
  let inserter: EventInserter

  beforeEach(async () => {
    database = testClickHouse()
    await migrateClickHouse(database.url)
    clickHouse = openClickHouse(database.url)
    inserter = openEventInserter(database.url)
  })

  afterEach(async () => {
    await inserter.close()
    await clickHouse.close()
    await database.drop()
  })

  test('keeps the identity that its migration gave it, and each store has its own', async () => {
    const other = testClickHouse()
    await migrateClickHouse(other.url)
    const otherInserter = openEventInserter(other.url)
    const id = await inserter.storeId()
    expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(await otherInserter.storeId()).not.toBe(id)
    await migrateClickHouse(database.url)
    const again = openEventInserter(database.url)
    expect(await again.storeId()).toBe(id)
    for (const each of [otherInserter, again]) await each.close()
    await other.drop()
  })

  test('on another server is refused until it is migrated there', async () => {
    const id = await inserter.storeId()
    await clickHouse.command('INSERT INTO store (id, server) SELECT id, generateUUIDv4() FROM store')
    // A writer that runs, and one that starts.
    await expect(insertOf(inserter, 'running')).rejects.toMatchObject({ internal: expect.stringMatching(/migrate/) })
    const started = openEventInserter(database.url)
    await expect(started.checkSchema()).rejects.toMatchObject({ internal: expect.stringMatching(/npm run migrate/) })
    await expect(insertOf(started, 'started')).rejects.toMatchObject({ internal: expect.stringMatching(/migrate/) })
    expect(await countEvents(clickHouse)).toBe(0)

    await migrateClickHouse(database.url)
    await started.checkSchema()
    expect(await started.storeId()).toBe(id)
    expect(await insertOf(started, 'moved')).toMatchObject({ inserted: 1 })
    await started.close()
  })

  test('without its row gets a new one from the migration, and stores nothing twice', async () => {
    const id = await inserter.storeId()
    expect(await insertOf(inserter, 'a')).toMatchObject({ inserted: 1 })
    await clickHouse.command('TRUNCATE TABLE store')
    const again = openEventInserter(database.url)
    await expect(again.checkSchema()).rejects.toMatchObject({
      internal: expect.stringMatching(/Run "npm run migrate"/),
    })
    await migrateClickHouse(database.url)
    await again.checkSchema()
    expect(await again.storeId()).not.toBe(id)
    expect(await insertOf(again, 'a')).toMatchObject({ inserted: 0 })
    await again.close()
  })

  test('with two rows is refused with the statement to run', async () => {
    const id = await inserter.storeId()
    await clickHouse.command('INSERT INTO store (id, server) SELECT generateUUIDv4(), serverUUID()')
    const again = openEventInserter(database.url)
    const refusal = await again.checkSchema().catch((error: unknown) => (error as AppError).internal)
    expect(refusal).toContain(id)
    const statement = /run "(DELETE FROM .*?)"/.exec(String(refusal))?.[1] ?? ''
    await clickHouse.command(statement.replace('<id>', id))
    await again.checkSchema()
    expect(await again.storeId()).not.toBe(id)
    await again.close()
  })

  test('with a table of another engine is refused, and the engine is named', async () => {
    await clickHouse.command('RENAME TABLE events TO local_events')
    await clickHouse.command("CREATE TABLE events AS local_events ENGINE = Merge(currentDatabase(), '^local_events$')")
    await expect(inserter.checkSchema()).rejects.toMatchObject({
      code: 'internal',
      internal: expect.stringMatching(/events has the engine Merge\..* put the address of a server/),
    })
    await expect(insertOf(inserter, 'a')).rejects.toMatchObject({ internal: expect.stringMatching(/engine Merge/) })
  })
})
