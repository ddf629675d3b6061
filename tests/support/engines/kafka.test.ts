import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { isAlive } from '@sluice/engines/processes'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWith } from '../describe-with.ts'
import { type LocalKafka, startKafka } from './kafka.ts'
import { isKafkaCached, kafkaMissing } from './kafka-files.ts'
import { kafkaAnswers } from './kafka-probe.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
const describeIfRuns = describeWith('Kafka', kafkaMissing() === undefined && isKafkaCached())

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeIfRuns('a local Kafka', () => {
  const dir = join(root, 'kafka')
  let kafka: LocalKafka
  const answers = (): Promise<boolean> => kafkaAnswers('127.0.0.1', kafka.port)

  beforeAll(async () => {
    kafka = await startKafka({ dir })
  })

  afterAll(async () => {
    await kafka.stop()
    expect(isAlive(kafka.pid)).toBe(false)
  })

  test('refuses a second one in the same folder', async () => {
    await expect(startKafka({ dir })).rejects.toThrow('is in use by this process')
  })

  test('answers nothing while it is paused, and does when it is resumed', async () => {
    kafka.pause()
    expect(await answers()).toBe(false)
    kafka.resume()
    await waitUntil(answers, 'Kafka answers')
  })

  test('answers on the same port after it was killed and started again', async () => {
    const { pid, brokers } = kafka
    await kafka.kill()
    expect(isAlive(pid)).toBe(false)
    expect(await answers()).toBe(false)
    await kafka.restart()
    expect(kafka.brokers).toBe(brokers)
    expect(kafka.pid).not.toBe(pid)
    await waitUntil(answers, 'Kafka answers')
  })

  test('gives up a start that is aborted', async () => {
    const abort = new AbortController()
    const starting = startKafka({ dir: join(root, 'given-up'), signal: abort.signal })
    abort.abort()
    await expect(starting).rejects.toThrow('aborted')
  })
})
