import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { describeEventLog } from '../conformance/conformance.ts'
import { ensureTopics } from './ensure-topics.ts'

describeWithKafka('with Kafka', () => {
  describeEventLog('Kafka', {
    createUrl: async () => {
      const url = testKafka()?.url ?? ''
      await ensureTopics(url, { partitions: 4 })
      return url
    },
    options: { kafka: { sessionTimeoutMs: 6_000, heartbeatIntervalMs: 100 } },
  })
})
