import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { describeEventLog } from '../conformance/conformance.ts'
import { ensureTopics } from './ensure-topics.ts'

describeWithKafka('with Kafka', () => {
  describeEventLog('Kafka', {
    createUrl: async () => {
      const url = testKafka()?.url ?? ''
      const create = () => ensureTopics(url, { partitions: 4 })
      // On a busy machine Kafka may take longer than the 15 s that the function waits; what was created stays.
      await create().catch(create)
      return url
    },
    options: { kafka: { sessionTimeoutMs: 6_000, heartbeatIntervalMs: 100 } },
  })
})
