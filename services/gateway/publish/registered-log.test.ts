import { afterEach, expect, test } from '@jest/globals'
import { shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { unavailable } from '@sluice/runtime/errors'
import { FatalError, supervise } from '@sluice/runtime/supervisor'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { registeredLog } from './registered-log.ts'

let gateway: TestGateway | undefined

afterEach(async () => {
  await gateway?.stop()
  gateway = undefined
})

const event = { site_id: 'shop', event_type: 'x' }

test('a gateway does not start on a log that is not registered, and says what to do', async () => {
  const started = startGateway({ isRegistered: false })
  await expect(started).rejects.toThrow(FatalError)
  await expect(started).rejects.toThrow('Run "npm run migrate"')
})

test('a gateway that starts while its log is unavailable publishes nothing until the log is registered', async () => {
  let isAway = true
  gateway = await startGateway({
    isRegistered: false,
    wrapLog: (log) => ({ ...log, id: () => (isAway ? Promise.reject(unavailable('away')) : log.id()) }),
  })
  const { log, postgres, collect, stored, registerLog } = gateway
  expect((await collect(event)).status).toBe(503)
  isAway = false
  expect((await collect(event)).status).toBe(503)
  expect((await log.endOffsets()).every((end) => end === 0n)).toBe(true)

  const watermarks = watermarkStore(postgres)
  const noon = Date.UTC(2026, 0, 15, 12)
  await watermarks.advance('an earlier log', [noon])
  expect(await watermarks.readCompleteTimes()).toStrictEqual({ live: noon, all: noon })
  await registerLog()
  // Before the first event of the new log is accepted, and until a writer has reported on it.
  expect(await watermarks.readCompleteTimes()).toStrictEqual({ live: 0, all: 0 })
  expect((await collect(event)).status).toBe(202)
  expect(await stored('shop', 1)).toHaveLength(1)
})

test('requests that arrive before the log is known share one look at it', async () => {
  let looks = 0
  let isAway = true
  const withId = (log: TestGateway['log']) => ({
    ...log,
    id: () => {
      looks++
      return isAway ? Promise.reject(unavailable('away')) : log.id()
    },
  })
  gateway = await startGateway({ isRegistered: false, wrapLog: withId })
  const { log, postgres, registerLog } = gateway
  await registerLog()
  const stores = { watermarks: watermarkStore(postgres), shards: shardStore(postgres) }
  const registered = registeredLog(withId(log), stores, capturedLogger().logger)
  looks = 0
  const asked = await Promise.allSettled(Array.from({ length: 50 }, () => registered.partitions()))
  expect([new Set(asked.map(({ status }) => status)), looks]).toStrictEqual([new Set(['rejected']), 1])
  isAway = false
  expect(await registered.partitions()).toBeGreaterThan(0)
  expect(looks).toBe(2)
})

test('a gateway that has read too few partitions at its start ends when the number of shards is being doubled', async () => {
  gateway = await startGateway({ shards: 4 })
  const { log, postgres } = gateway
  const shards = shardStore(postgres)
  const { logger } = capturedLogger()
  const registered = registeredLog(log, { watermarks: watermarkStore(postgres), shards }, logger, { watchMs: 50 })
  const supervisor = supervise([registered.guard, registered.watch], logger)
  await supervisor.start()
  await shards.startDoubling()
  const { message } = await supervisor.fatal
  expect(message).toMatch(/has 4 partitions and ClickHouse 8 shards.*if it has been changed since, restart this one/)
  await supervisor.stop()
})
