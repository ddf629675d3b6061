import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type LocalKafka, startKafka } from '../../../tests/support/engines/kafka.ts'
import { describeWithKafka } from '../../../tests/support/engines/test-engines.ts'
import { block, collect } from '../conformance/collect.ts'
import { createTopic, kafkaClientOf } from '../conformance/kafka-client.ts'
import { openEventLog } from '../open-event-log.ts'

const topic = 'events'
const timeoutMs = 10_000

describeWithKafka('a partition with fewer in-sync replicas than min.insync.replicas', () => {
  let dir: string
  let first: LocalKafka
  let second: LocalKafka

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
    first = await startKafka({ dir: join(dir, '1'), brokerSessionMs: 6_000 })
    second = await startKafka({
      dir: join(dir, '2'),
      joins: { cluster: first.cluster, nodeId: 2 },
      brokerSessionMs: 6_000,
    })
  })

  afterAll(async () => {
    await second.stop()
    await first.stop()
    await rm(dir, { recursive: true })
  })

  test('fails a publish, whose blocks for another partition are reported as durable and not appended at each attempt', async () => {
    const url = `kafka://${first.brokers}/${topic}`
    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    const replicaAssignment = [0, 1].map((partition) => ({ partition, replicas: [1] }))
    const configEntries = [{ name: 'min.insync.replicas', value: '2' }]
    await createTopic(admin, { topic, replicaAssignment, configEntries })
    // A partition with one replica requires one. Kafka makes no topic whose partitions differ in this.
    const partitionAssignment = [{ partition: 1, replicas: [1, 2] }]
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] })
    const highOf = async (wanted: number) =>
      Number((await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === wanted)?.high)
    const inSync = async () => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      return topics[0]?.partitions.find(({ partitionId }) => partitionId === 1)?.isr.length
    }
    await waitUntil(async () => (await inSync()) === 2, 'the second replica is in sync')
    const log = await openEventLog(url, { logger: silentLogger })
    await log.publish([block(0, 'a'), block(1, 'b')], { timeoutMs })
    await second.kill()
    await waitUntil(async () => (await inSync()) === 1, 'the lost replica is out of sync')

    const reports: (readonly number[])[] = []
    // The blocks of the refusing partition are too large for one request.
    const blocks = [block(1, 'd', {}, 600_000), block(1, 'd', {}, 600_000), block(0, 'c')]
    const failing = log.publish(blocks, {
      timeoutMs: 5_000,
      onDurable: (partitions) => reports.push(partitions),
    })
    await expect(failing).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    expect(reports).toEqual([[0]])
    // The publish makes about 14 attempts. Two of them append the block: the first one, and one that sends it in a
    // separate request. An attempt without an answer in time is repeated.
    expect(await highOf(0)).toBeLessThan(6)
    expect(await highOf(1)).toBe(1)

    await second.restart()
    await waitUntil(async () => (await inSync()) === 2, 'the replica is in sync again')
    await log.publish([block(0, 'e'), block(1, 'f')], { timeoutMs })
    const reader = collect(log, 'group')
    await waitUntil(() => reader.names.includes('e') && reader.names.includes('f'), 'all blocks')
    expect(new Set(reader.names)).toEqual(new Set(['a', 'b', 'c', 'e', 'f']))
    await reader.consumer.stop()
    await log.close()
    await admin.disconnect()
  })
})
