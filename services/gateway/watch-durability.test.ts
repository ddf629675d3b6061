import { afterEach, expect, test } from '@jest/globals'
import { createMetrics } from '@sluice/runtime/metrics'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { addDurabilityWarnings } from './metrics.ts'
import { type DurabilityWatch, watchDurability } from './watch-durability.ts'

let supervisor: Supervisor | undefined

afterEach(async () => {
  await supervisor?.stop()
})

/** Starts a watch; `gauge` is the value of its metric, undefined while it has none. */
async function start(describeLog: () => Promise<readonly string[]>) {
  const { logger, lines } = capturedLogger()
  const watch: DurabilityWatch = watchDurability(describeLog, logger)
  const metrics = createMetrics()
  addDurabilityWarnings(metrics, watch.warnings)
  supervisor = supervise([watch], logger)
  await supervisor.start()
  const gauge = async () => /^sluice_log_durability_warnings (\d+)$/m.exec(await metrics.metrics())?.[1]
  return { watch, gauge, lines }
}

test('a log that could never be checked is a warning, which is logged, and not a log without weaknesses', async () => {
  const cause = Object.assign(new Error('refused'), { type: 'CLUSTER_AUTHORIZATION_FAILED' })
  const failure = new Error('Kafka at kafka.internal:9092: refused', { cause })
  const { watch, gauge, lines } = await start(() => Promise.reject(failure))
  await waitUntil(() => watch.warnings() !== undefined, 'the first check has ended')
  const [warning] = watch.warnings() ?? []
  expect(warning).toBe('The durability of the event log could not be checked: CLUSTER_AUTHORIZATION_FAILED')
  expect(await gauge()).toBe('1')
  expect(lines().filter(({ level }) => level === 'warn')).toStrictEqual([
    expect.objectContaining({
      msg: 'The durability of the event log could not be checked',
      // The address is for operators alone.
      reason: 'Kafka at kafka.internal:9092: refused',
    }),
  ])
})

test('the gauge has no value before the log is checked, then the number of its weaknesses', async () => {
  const checked = Promise.withResolvers<readonly string[]>()
  const { watch, gauge } = await start(() => checked.promise)
  expect(await gauge()).toBeUndefined()
  checked.resolve([])
  await waitUntil(() => watch.warnings() !== undefined, 'the check has ended')
  expect([watch.warnings(), await gauge()]).toStrictEqual([[], '0'])
})
