import { describeWithKafka, testKafka } from '@sluice/engines/testing'
import { describeEventLog } from './conformance.ts'
import { ensureTopics } from './ensure-topics.ts'

describeWithKafka('kafka', () => {
  describeEventLog('kafka', {
    createUrl: async () => {
      const url = testKafka()?.url ?? ''
      await ensureTopics(url, { partitions: 4 })
      return url
    },
    options: { kafka: { sessionTimeoutMs: 2000, heartbeatIntervalMs: 100 } },
  })
})
