import { describeWithKafka, describeWithRedis } from '@sluice/engines/testing'

/** `describe` for suites that run services as production does: left out, and named so, without Kafka or without Redis. */
export function describeWithServices(name: string, suite: () => void): void {
  describeWithKafka(name, () => {
    describeWithRedis('with Redis', suite)
  })
}
