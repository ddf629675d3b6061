import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/engines/processes'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { type Cuttable, cuttable, openTestPostgres, type TestPostgres } from '@sluice/postgres/testing'
import { type WatermarkStore, watermarkStore } from '@sluice/postgres/watermarks'
import { type Supervisor, supervise } from '@sluice/runtime/supervisor'
import { capturedLogger } from '@sluice/runtime/testing'
import { type CompleteUntil, completeUntil } from './complete-until.ts'

const noon = Date.UTC(2026, 0, 15, 12)
let database: TestPostgres
/** The writers' way to it; ours can be cut. */
let writers: WatermarkStore
let way: Cuttable
let postgres: Postgres
const running: Supervisor[] = []

beforeAll(async () => {
  database = await openTestPostgres()
  writers = watermarkStore(database)
  way = await cuttable(database.url)
  postgres = openPostgres(way.url)
})

afterAll(async () => {
  await postgres.close()
  await way.close()
  await database.drop()
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()))
  await database.db.deleteFrom('log_watermarks').execute()
})

interface Started {
  it: CompleteUntil
  lines: () => Record<string, unknown>[]
  /** Resolves when Postgres was asked again, with an answer or without. */
  askedAgain: () => Promise<void>
}

async function start(): Promise<Started> {
  const { logger, lines } = capturedLogger()
  const store = watermarkStore(postgres)
  let answers = 0
  const counted = {
    completeUntil: () =>
      store.completeUntil().finally(() => {
        answers++
      }),
  }
  const it = completeUntil(counted, logger, { intervalMs: 5 })
  const supervisor = supervise([it], logger)
  running.push(supervisor)
  await supervisor.start()
  const askedAgain = async () => {
    // The one under way may have been answered before.
    const enough = answers + 3
    await waitUntil(() => answers >= enough, 'it asked again', 5_000)
  }
  return { it, lines, askedAgain }
}

const becomes = (it: CompleteUntil, until: number) => waitUntil(() => it.now() === until, `it is ${until}`, 5_000)

test('is known as soon as it has started, and follows what the writers tell', async () => {
  await writers.advance('log', [noon, noon + 5])
  const { it } = await start()
  expect(it.now()).toBe(noon)
  await writers.advance('log', [noon + 7, undefined])
  await becomes(it, noon + 5)
})

test('is 0 before anybody told', async () => {
  const { it } = await start()
  expect(it.now()).toBe(0)
  await writers.advance('log', [noon, undefined])
  await writers.advance('log', [undefined, noon + 1])
  await becomes(it, noon)
})

test('never goes back, when the log gets a partition for one', async () => {
  await writers.advance('log', [noon])
  const { it, askedAgain } = await start()
  await writers.advance('log', [noon + 1, undefined])
  await writers.advance('other', [noon + 2])
  await askedAgain()
  expect(await writers.completeUntil()).toBe(0)
  expect(it.now()).toBeGreaterThanOrEqual(noon)
  await writers.advance('log', [noon + 3, noon + 3])
  await becomes(it, noon + 2)
})

test('stands while Postgres is away, and one line says so', async () => {
  await writers.advance('log', [noon])
  const { it, lines, askedAgain } = await start()
  await way.cut()
  await askedAgain()
  await writers.advance('log', [noon + 1])
  expect(it.now()).toBe(noon)
  await way.mend()
  await becomes(it, noon + 1)
  expect(lines()).toMatchObject([{ level: 'warn' }])
})

test('starts without Postgres', async () => {
  await way.cut()
  const { it } = await start()
  expect(it.now()).toBe(0)
  await way.mend()
  await writers.advance('log', [noon])
  await becomes(it, noon)
})
