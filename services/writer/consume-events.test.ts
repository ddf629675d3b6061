import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { ClickHouseError } from '@sluice/clickhouse/errors'
import type { EventInserter } from '@sluice/clickhouse/insert-events'
import {
  blockOfRows,
  createPlace,
  event,
  eventually,
  partitions,
  type Place,
  type RunningWriter,
  runWriter,
} from './writer.test-support.ts'

let place: Place
let writer: RunningWriter | undefined

beforeEach(async () => {
  place = await createPlace()
})

afterEach(async () => {
  await writer?.stop()
  writer = undefined
  await place.drop()
})

/** Offsets of the events' log that the writer has yet to commit. */
async function uncommitted(): Promise<number> {
  const positions = await place.log.positions(`sluice-writer-${await place.log.id()}`)
  return positions.reduce((sum, { next, end }) => sum + Number(end - next), 0)
}

const drained = () => eventually('the log is drained', async () => (await uncommitted()) === 0)

describe('what can’t be stored', () => {
  test('goes to the log of dead letters, everything else of its batch is stored', async () => {
    const good = Array.from({ length: 2_000 }, (_, n) => event(`good-${String(n).padStart(4, '0')}`))
    const bad = [event('no-such-place', { environment: 'moon' }), '{"site_id": "a', event('x', { timestamp: 'noon' })]
    const rows = [...good.slice(0, 700), bad[0] ?? '', ...good.slice(700, 1_400), bad[1] ?? '', ...good.slice(1_400)]
    const cut = { ...blockOfRows(0, good.slice(0, 3)) }
    cut.headers = { ...cut.headers, rows: 5 }
    await place.publish(blockOfRows(0, rows), blockOfRows(1, [bad[2] ?? '']), cut, blockOfRows(0, [event('last')]))

    writer = runWriter(place)
    await drained()
    expect(await place.stored()).toStrictEqual([...good.map(({ event_id: id }) => id), 'last'])
    const text = (row: string | object = '') => (typeof row === 'string' ? row : JSON.stringify(row))
    const dead = await place.dead()
    expect(dead).toHaveLength(6)
    expect(dead).toEqual(
      expect.arrayContaining([
        { reason: 'refused', row: text(bad[0]) },
        { reason: 'not_json', row: text(bad[1]) },
        { reason: 'refused', row: text(bad[2]) },
        ...good.slice(0, 3).map((row) => ({ reason: 'row_count', row: text(row) })),
      ]),
    )
    expect(await writer.figure('sluice_writer_dead_letters_total', { reason: 'refused' })).toBe(2)
    expect(await writer.figure('sluice_writer_dead_letters_total', { reason: 'unreadable' })).toBe(0)
    expect(writer.lines().filter(({ msg }) => msg === 'rows could not be stored')).toHaveLength(2)
  })

  test('is durable as a dead letter before the batch is committed', async () => {
    await place.publish(blockOfRows(0, [event('good'), event('bad', { environment: 'moon' })]))
    let isAway = true
    let refusals = 0
    const deadLetters = {
      partitions: () => place.deadLetters.partitions(),
      publish: (...call: Parameters<typeof place.deadLetters.publish>) => {
        if (!isAway) return place.deadLetters.publish(...call)
        refusals++
        return Promise.reject(new Error('the log is away'))
      },
    }
    writer = runWriter(place, { deadLetters })
    await eventually('some refusals', () => refusals >= 3)
    expect(await place.stored()).toStrictEqual(['good'])
    expect(await uncommitted()).toBe(1)
    expect(writer.consumer.warnings()).toStrictEqual(['partition 0 waits: the log is away'])

    isAway = false
    await drained()
    expect(await place.dead()).toMatchObject([{ reason: 'refused' }])
    expect(writer.consumer.warnings()).toStrictEqual([])
  })

  test('a whole batch of it does not take longer than a good one by much', async () => {
    const rows = Array.from({ length: 10_000 }, (_, n) => event(`bad-${n}`, { environment: 'moon' }))
    await place.publish(...Array.from({ length: 20 }, (_, n) => blockOfRows(0, rows.slice(n * 500, n * 500 + 500))))
    writer = runWriter(place)
    await drained()
    expect(await place.dead()).toHaveLength(10_000)
    expect(await place.stored()).toStrictEqual([])
  })

  test('is nobody’s row while the table is what is wrong', async () => {
    await place.clickHouse.command('RENAME TABLE events TO events_before')
    await place.publish(blockOfRows(0, [event('a'), event('b')]))
    writer = runWriter(place)
    await eventually('attempts', async () => Number(await writer?.figure('sluice_writer_retries_total')) >= 3)
    // A table that can't hold the rows answers with the same codes as rows that can't be read.
    await place.clickHouse.command(
      `CREATE TABLE events ENGINE = Memory AS
       SELECT * REPLACE (CAST('mars', 'Enum8(''mars'' = 7)') AS environment), event_key FROM events_before`,
    )
    const before = Number(await writer.figure('sluice_writer_retries_total'))
    await eventually(
      'more attempts',
      async () => Number(await writer?.figure('sluice_writer_retries_total')) > before + 1,
    )
    expect(await place.dead()).toStrictEqual([])

    await place.clickHouse.command('DROP TABLE events SYNC')
    await place.clickHouse.command('RENAME TABLE events_before TO events')
    await drained()
    expect(await place.stored()).toStrictEqual(['a', 'b'])
    expect(await place.dead()).toStrictEqual([])
  })
})

describe('a partition that is stuck does not hold up the others', () => {
  /** Fails in its way for every partition but the last: as many as the writer serves at a time. */
  const stuckBut = (last: number, fault: () => Promise<never>): EventInserter => ({
    ...place.inserter,
    insert: (batch, options) =>
      options.queryId.endsWith(`-${last}`) ? place.inserter.insert(batch, options) : fault(),
  })
  const last = partitions - 1

  test.each([
    ['whose inserts hang', () => new Promise<never>(() => undefined)],
    ['whose inserts are refused for ever', () => Promise.reject(new ClickHouseError(60, 'there is no table events'))],
    ['whose inserts get no answer', () => Promise.reject(new ClickHouseError(undefined, 'socket hang up'))],
  ])('%s', async (_, fault) => {
    const everywhere = Array.from({ length: partitions }, (_, partition) => partition)
    await place.publish(...everywhere.map((partition) => blockOfRows(partition, [event(`first-${partition}`)])))
    writer = runWriter(place, { inserter: stuckBut(last, fault) })
    await eventually('the partition that works', async () => (await place.stored()).length === 1)
    for (let n = 0; n < 5; n++) {
      await place.publish(blockOfRows(last, [event(`next-${n}`)]))
      await eventually('its next batch', async () => (await place.stored()).length === n + 2)
    }
    await eventually('its commits', async () => (await uncommitted()) === partitions - 1)
  })
})

test('a stop waits 5 s for an insert that hangs, and no longer', async () => {
  await place.publish(blockOfRows(0, [event('a')]))
  let inserts = 0
  const insert = () => {
    inserts++
    return new Promise<never>(() => undefined)
  }
  const hanging = runWriter(place, { inserter: { ...place.inserter, insert } })
  await eventually('the insert', () => inserts === 1)
  await hanging.stop()
  expect(await uncommitted()).toBe(1)
})

test('a stop does not wait for what ClickHouse can’t take now; the next writer goes on there', async () => {
  await place.clickHouse.command('RENAME TABLE events TO events_before')
  await place.publish(blockOfRows(0, [event('a')]))
  const first = runWriter(place)
  await eventually('attempts', async () => Number(await first.figure('sluice_writer_retries_total')) >= 2)
  await place.publish(blockOfRows(0, [event('b')]))
  const started = performance.now()
  await first.stop()
  expect(performance.now() - started).toBeLessThan(3_000)
  expect(await uncommitted()).toBe(2)

  await place.clickHouse.command('RENAME TABLE events_before TO events')
  writer = runWriter(place)
  await drained()
  expect(await place.stored()).toStrictEqual(['a', 'b'])
})

test('freshness grows while the writer is stuck, and is 0 when the log is drained', async () => {
  await place.clickHouse.command('RENAME TABLE events TO events_before')
  await place.publish(blockOfRows(0, [event('a')]))
  const running = runWriter(place)
  writer = running
  const freshness = async (partition: number) =>
    Number(await running.figure('sluice_writer_freshness_seconds', { partition: String(partition) }))
  await eventually('a first age', async () => (await freshness(0)) > 0.1)
  const first = await freshness(0)
  await eventually('a greater one', async () => (await freshness(0)) > first + 0.5)
  expect(await freshness(1)).toBe(0)
  expect(await running.figure('sluice_writer_lag_blocks', { partition: '0' })).toBe(1)

  await place.clickHouse.command('RENAME TABLE events_before TO events')
  await drained()
  await eventually('no age', async () => (await freshness(0)) === 0)
})
