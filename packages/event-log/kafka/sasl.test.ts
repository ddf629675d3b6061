import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { readiness } from '@sluice/runtime/health'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { type LocalKafka, startKafka } from '../../../tests/support/engines/kafka.ts'
import { describeWithKafka } from '../../../tests/support/engines/test-engines.ts'
import { findFreePort } from '../../../tests/support/free-port.ts'
import { openEventLog } from '../open-event-log.ts'
import { ensureTopics } from './ensure-topics.ts'

describeWithKafka('a Kafka that requires a password', () => {
  let dir: string
  let port: number
  let kafka: LocalKafka

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sluice-kafka-sasl-'))
    port = await findFreePort()
    kafka = await startKafka({ dir, sasl: { port, username: 'sluice', password: 'right' } })
  })

  afterAll(async () => {
    await kafka.stop()
    await rm(dir, { recursive: true, force: true })
  })

  const urlWith = (password: string) => `kafka://sluice:${password}@127.0.0.1:${port}/events?sasl=plain`

  /** What `/readyz` shows and what is logged for a log whose URL has this password. */
  async function checkWith(password: string) {
    const log = await openEventLog(urlWith(password), { logger: silentLogger })
    const reasons: string[] = []
    const check = { name: 'log', required: true, check: () => log.check() }
    const onFailure = (_name: string, reason: string) => reasons.push(reason)
    const { missing } = await readiness([check], { timeoutMs: 10_000, onFailure })
    await log.close()
    return { missing, reasons }
  }

  test('is ready with the right password', async () => {
    await ensureTopics(urlWith('right'), { partitions: 1 })
    expect(await checkWith('right')).toStrictEqual({ missing: {}, reasons: [] })
  })

  test('names the refusal of a wrong password, which stays out of the log', async () => {
    const { missing, reasons } = await checkWith('hush-hush')
    expect(missing).toStrictEqual({ log: 'SASL_AUTHENTICATION_FAILED' })
    expect(reasons).toStrictEqual([expect.stringContaining('Authentication failed: Invalid username or password')])
    expect(reasons.join()).not.toContain('hush')
  })
})
