import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import { hourMs } from '@sluice/contracts/time-units'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { type WatermarkStore, watermarkStore } from '@sluice/postgres/watermarks'
import { createMetrics } from '@sluice/runtime/metrics'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { type TcpProxy, tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type VirtualClock, virtualClock } from '../../tests/support/virtual-clock.ts'
import { type CompleteUntilPoller, completeUntilPoller } from './complete-until.ts'

const noon = Date.UTC(2026, 0, 15, 12)
let database: TestPostgres
/** The connection of the writers; that of the component goes through `proxy`, which can be cut. */
let writers: WatermarkStore
let proxy: TcpProxy
let postgres: Postgres
const running: Supervisor[] = []

beforeAll(async () => {
  database = await openTestPostgres()
  writers = watermarkStore(database)
  proxy = await tcpProxy(database.url)
  postgres = openPostgres(proxy.url)
})

afterAll(async () => {
  await postgres.close()
  await proxy.close()
  await database.drop()
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()))
  await database.db.deleteFrom('log_watermarks').execute()
})

interface Started {
  it: CompleteUntilPoller
  clock: VirtualClock
  /** The metric of its age, in seconds. */
  age: () => Promise<number | undefined>
  lines: () => Record<string, unknown>[]
  /** Resolves after further polls, successful or not. */
  polledAgain: () => Promise<void>
}

async function start(): Promise<Started> {
  const { logger, lines } = capturedLogger()
  const store = watermarkStore(postgres)
  let polls = 0
  const counted = {
    readCompleteTimes: () =>
      store.readCompleteTimes().finally(() => {
        polls++
      }),
  }
  const metrics = createMetrics()
  const clock = virtualClock(noon)
  const it = completeUntilPoller({ store: counted, logger, metrics, clock, intervalMs: 5 })
  const supervisor = supervise([it], logger)
  running.push(supervisor)
  await supervisor.start()
  const polledAgain = async () => {
    // The poll under way may have read an earlier state.
    const enough = polls + 3
    await waitUntil(() => polls >= enough, 'it asked again')
  }
  const age = async (): Promise<number | undefined> => {
    const gauge = await metrics.getSingleMetric('sluice_query_complete_until_age_seconds')?.get()
    return gauge?.values[0]?.value
  }
  return { it, clock, age, lines, polledAgain }
}

const becomes = (it: CompleteUntilPoller, until: number, readsFrom = -Infinity) =>
  waitUntil(() => it.read(readsFrom) === until, `it is ${until}`)

test('complete_until is known after the start and follows the watermarks of the writers', async () => {
  await writers.advance('log', [noon, noon + 5])
  const { it } = await start()
  expect(it.read(-Infinity)).toBe(noon)
  await writers.advance('log', [noon + 7, undefined])
  await becomes(it, noon + 5)
})

test('complete_until is 0 until every partition has a watermark', async () => {
  const { it } = await start()
  expect(it.read(-Infinity)).toBe(0)
  await writers.advance('log', [noon, undefined])
  await writers.advance('log', [undefined, noon + 1])
  await becomes(it, noon)
})

test('complete_until does not decrease when the log gets another partition', async () => {
  await writers.advance('log', [noon])
  const { it, polledAgain } = await start()
  await writers.advance('log', [noon + 1, undefined])
  await writers.advance('other', [noon + 2])
  await polledAgain()
  expect(await writers.readCompleteTimes()).toStrictEqual({ live: 0, all: 0 })
  expect(it.read(-Infinity)).toBeGreaterThanOrEqual(noon)
  await writers.advance('log', [noon + 3, noon + 3])
  await becomes(it, noon + 2)
})

test('complete_until decreases when it lies in the future, because the clock of Postgres has been set back', async () => {
  await writers.advance('log', [noon + hourMs])
  const { it } = await start()
  expect(it.read(-Infinity)).toBe(noon + hourMs)
  await database.db.deleteFrom('log_watermarks').execute()
  await writers.advance('log', [noon - 3_000])
  await becomes(it, noon - 3_000)
  await becomes(it, noon - 3_000, noon)
})

test('a question that reads no event older than 62 days at its receipt does not mind the backfill log', async () => {
  await writers.advance('log', [noon])
  const { it } = await start()
  expect(it.read(-Infinity)).toBe(noon)
  await writers.advance('log', [undefined], 'backfill')
  await writers.advance('log', [noon + 10])
  await becomes(it, noon + 10, noon)
  // An older event that was received until then is in the backfill log, on which no writer has reported.
  expect(it.read(noon + 10 - backfillAgeMs)).toBe(noon + 10)
  expect(it.read(noon + 10 - backfillAgeMs - 1)).toBe(noon)
  await writers.advance('log', [noon + 5], 'backfill')
  await becomes(it, noon + 5)
  expect(it.read(noon)).toBe(noon + 10)
})

test('complete_until keeps its value while Postgres is unavailable, and one warning is logged', async () => {
  await writers.advance('log', [noon])
  const { it, lines, polledAgain } = await start()
  await proxy.cut()
  await polledAgain()
  await writers.advance('log', [noon + 1])
  expect(it.read(-Infinity)).toBe(noon)
  await proxy.mend()
  await becomes(it, noon + 1)
  expect(lines()).toMatchObject([{ level: 'warn' }])
})

test('the metric is the age of what answers report, also of a log that no writer reads any more', async () => {
  await writers.advance('lost', [noon])
  await writers.advance('log', [noon + 1])
  await writers.advance('log', [undefined], 'backfill')
  const { it, clock, age, polledAgain } = await start()
  await clock.advance(60_000)
  await writers.advance('log', [noon + 57_000])
  await polledAgain()
  expect(await age()).toBe(60)
  await proxy.cut()
  await clock.advance(5_000)
  expect(await age()).toBe(65)
  await proxy.mend()
  await database.db.deleteFrom('log_watermarks').where('log_id', '=', 'lost').execute()
  await becomes(it, noon + 57_000, noon)
  expect(await age()).toBe(8)
})

test('the metric is no small number while complete_until is not known', async () => {
  await writers.advance('log', [undefined])
  const { age } = await start()
  expect(await age()).toBe(noon / 1_000)
})

test('the component starts while Postgres is unavailable', async () => {
  await proxy.cut()
  const { it } = await start()
  expect(it.read(-Infinity)).toBe(0)
  await proxy.mend()
  await writers.advance('log', [noon])
  await becomes(it, noon)
})
