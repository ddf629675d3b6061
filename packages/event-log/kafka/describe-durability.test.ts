import { expect, test } from '@jest/globals'
import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { createTopic, kafkaClientOf, topicOf } from '../conformance/kafka-client.ts'
import { describeDurability } from './describe-durability.ts'

describeWithKafka('topics in Kafka', () => {
  test('are reported as a risk when Kafka may delete events before the writer reads them', async () => {
    const url = testKafka()?.url ?? ''
    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    const settings = {
      'retention.ms': '604799999',
      'retention.bytes': '1000000',
      'cleanup.policy': 'compact,delete',
      'compression.type': 'lz4',
    }
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    await createTopic(admin, { topic: topicOf(url), configEntries })
    expect(await describeDurability(url)).toEqual(
      expect.arrayContaining(
        ['backfill', 'dead'].map((name) => `Topic ${topicOf(url)}.${name} is missing: "npm run migrate" creates it`),
      ),
    )
    const month = { name: 'retention.ms', value: '2592000000' }
    await createTopic(admin, { topic: `${topicOf(url)}.dead`, configEntries: [month] })
    await admin.disconnect()
    const warnings = (await describeDurability(url)).join('\n')
    expect(warnings).toContain(`Topic ${topicOf(url)}.dead has retention.ms=2592000000: below 365 days`)
    expect(warnings).toContain('retention.ms=604799999: below 7 days')
    expect(warnings).toContain('retention.bytes=1000000')
    expect(warnings).toContain('cleanup.policy=compact,delete')
    expect(warnings).toContain('compression.type=lz4: brokers recompress events')
  })
})
