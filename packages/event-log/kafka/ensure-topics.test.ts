import { isDeepStrictEqual } from 'node:util'
import { afterEach, describe, expect, test } from '@jest/globals'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { block } from '../conformance/collect.ts'
import { createKafkaLog, kafkaClientOf, topicOf } from '../conformance/kafka-client.ts'
import type { EventLog } from '../log.ts'
import { openEventLog } from '../open-event-log.ts'
import { describeDurability } from './describe-durability.ts'
import { ensureTopics } from './ensure-topics.ts'
import { topicResource } from './topic-settings.ts'

const logs: EventLog[] = []

const open = async (url: string) => {
  const log = await openEventLog(url, { logger: silentLogger })
  logs.push(log)
  return log
}

afterEach(async () => {
  await Promise.all(logs.splice(0).map((log) => log.close()))
})

describeWithKafka('topics in Kafka', () => {
  test('are created once with those of old rows and dead letters, and a single broker is reported as a risk', async () => {
    const url = testKafka()?.url ?? ''
    const topic = topicOf(url)
    expect(await ensureTopics(url)).toEqual([topic, `${topic}.dead`, `${topic}.backfill`])
    expect(await ensureTopics(url)).toEqual([])
    expect(await (await open(url)).partitions()).toBe(4)
    expect(await (await open(url)).id()).toMatch(new RegExp(`^[A-Za-z0-9_-]+\\.${topic}$`))
    const warnings = await describeDurability(url)
    for (const name of [topic, `${topic}.backfill`, `${topic}.dead`]) {
      expect(warnings.filter((warning) => warning.startsWith(`Topic ${name} has `))).toEqual([
        expect.stringContaining('has 1 replicas'),
        expect.stringContaining('min.insync.replicas=1'),
      ])
    }
    expect(warnings).toHaveLength(6)
    expect(await describeDurability('file:data/log')).toEqual([])
  })

  test('are named with the reason when Kafka refuses to create them', async () => {
    const url = testKafka()?.url ?? ''
    const topic = topicOf(url)
    await expect(ensureTopics(url, { partitions: 0 })).rejects.toThrow(
      `Topic creation errors: ${topic} INVALID_PARTITIONS, ${topic}.dead INVALID_PARTITIONS`,
    )
  })

  describe('of old rows', () => {
    const settings = ['retention.ms', 'max.message.bytes', 'segment.ms'] as const

    /** The number of partitions and some settings of a topic. */
    const describeTopic = async (url: string, name: string) => {
      const admin = kafkaClientOf(url).admin()
      await admin.connect()
      const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: topicResource, name, configNames: [...settings] }],
      })
      await admin.disconnect()
      const values = resources.flatMap(({ configEntries }) =>
        configEntries.map(({ configName, configValue }) => `${configName}=${configValue}`),
      )
      return { partitions: topics[0]?.partitions.length, settings: values.sort() }
    }

    /** Waits for the number of partitions; a broker may refuse to describe a topic that is new to it. */
    const havePartitions = (url: string, name: string, count: number) =>
      waitUntil(async () => {
        const { partitions } = await describeTopic(url, name).catch(() => ({ partitions: undefined }))
        return partitions === count
      }, `${name} has ${count} partitions`)

    /** Creates the topic of events as an operator would, before this build. */
    const createTopic = async (name: string, numPartitions: number, url: string) => {
      const admin = kafkaClientOf(url).admin()
      await admin.connect()
      const configEntries = [
        { name: 'retention.ms', value: '1209600000' },
        { name: 'segment.ms', value: '3600000' },
      ]
      await admin.createTopics({ topics: [{ topic: name, numPartitions, configEntries }], waitForLeaders: false })
      await admin.disconnect()
    }

    test('get the partitions and settings of the topic of events, at first and after these have changed', async () => {
      const url = testKafka()?.url ?? ''
      const topic = topicOf(url)
      await createTopic(topic, 3, url)
      await havePartitions(url, topic, 3)
      expect(await ensureTopics(url)).toEqual([`${topic}.dead`, `${topic}.backfill`])
      expect((await describeTopic(url, topic)).settings).toContain('retention.ms=1209600000')
      expect(await describeTopic(url, `${topic}.backfill`)).toEqual(await describeTopic(url, topic))

      const admin = kafkaClientOf(url).admin()
      await admin.connect()
      await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
      const configEntries = [{ name: 'retention.ms', value: '2419200000' }]
      await admin.alterConfigs({
        validateOnly: false,
        resources: [{ type: topicResource, name: topic, configEntries }],
      })
      await admin.disconnect()
      await havePartitions(url, topic, 5)
      expect((await describeDurability(url)).join()).toContain(`${topic}.backfill has 3`)
      expect(await ensureTopics(url)).toEqual([])
      await havePartitions(url, `${topic}.backfill`, 5)
      const { settings } = await describeTopic(url, topic)
      await waitUntil(async () => {
        const described = await describeTopic(url, `${topic}.backfill`)
        return isDeepStrictEqual(described.settings, settings)
      }, 'the settings of the backfill topic are those of the topic of events')
      expect((await describeDurability(url)).join()).not.toContain('until they are equal')
    })

    test('with more partitions than events have are refused with what to do', async () => {
      const url = testKafka()?.url ?? ''
      const topic = topicOf(url)
      await createTopic(topic, 2, url)
      await createTopic(`${topic}.backfill`, 4, url)
      await havePartitions(url, `${topic}.backfill`, 4)
      await expect(ensureTopics(url)).rejects.toThrow('has 4 partitions')
    })
  })

  test('keep events for a month and dead letters for a year from their arrival, whatever their size, in a form that writers read', async () => {
    const kept = {
      'retention.bytes': '-1',
      'cleanup.policy': 'delete',
      'compression.type': 'uncompressed',
      'message.timestamp.type': 'LogAppendTime',
    }
    const url = await createKafkaLog()
    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    const settingsOf = async (name: string) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [
          { type: topicResource, name, configNames: [...Object.keys(kept), 'retention.ms', 'max.message.bytes'] },
        ],
      })
      return Object.fromEntries(
        resources.flatMap(({ configEntries }) =>
          configEntries.map(({ configName, configValue }) => [configName, configValue]),
        ),
      )
    }
    expect(await settingsOf(topicOf(url))).toEqual({
      ...kept,
      'retention.ms': '2592000000',
      'max.message.bytes': String(16 * 1024 * 1024),
    })
    expect(await settingsOf(`${topicOf(url)}.dead`)).toEqual({
      ...kept,
      'retention.ms': '31536000000',
      // A dead letter is a record with the reason.
      'max.message.bytes': String(16 * 1024 * 1024 + 64 * 1024),
    })
    await admin.disconnect()
  })

  test('report their ends with the new partitions as soon as partitions were added', async () => {
    const url = await createKafkaLog()
    const log = await open(url)
    expect(await log.endOffsets()).toEqual([0n, 0n])
    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    await admin.createPartitions({ topicPartitions: [{ topic: topicOf(url), count: 3 }] })
    const countOf = async () => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topicOf(url)] })
      return topics[0]?.partitions.length
    }
    await waitUntil(async () => (await countOf()) === 3, 'the broker reports them')
    expect(await log.endOffsets()).toEqual([0n, 0n, 0n])
    await admin.disconnect()
  })

  test('are named with the command that creates them when they are missing', async () => {
    const log = await open(testKafka()?.url ?? '')
    await expect(log.partitions()).rejects.toMatchObject({
      code: 'unavailable',
      internal: expect.stringContaining('migrate'),
    })
    await expect(log.check()).rejects.toMatchObject({ code: 'unavailable' })
    await expect(log.publish([block(0, 'a')], { timeoutMs: 1000 })).rejects.toMatchObject({ code: 'unavailable' })
  })
})
