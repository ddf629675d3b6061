import { type Admin, type ITopicConfig, Kafka, logLevel } from 'kafkajs'
import { waitUntil } from '@sluice/runtime/wait-until'
import { testKafka } from '../../../tests/support/engines/test-engines.ts'
import { ensureTopics } from '../kafka/ensure-topics.ts'

/** A kafkajs client for the broker of a log's URL, for requests that the log does not make. It logs nothing. */
export const kafkaClientOf = (url: string): Kafka =>
  new Kafka({ brokers: [new URL(url).host], logLevel: logLevel.NOTHING, clientId: 'test' })

/** The topic of a log's URL. */
export const topicOf = (url: string): string => new URL(url).pathname.slice(1)

/** Creates the topics of a log with two partitions on the Kafka of this test run; returns the log's URL. */
export async function createKafkaLog(): Promise<string> {
  const url = testKafka()?.url ?? ''
  await ensureTopics(url, { partitions: 2 })
  return url
}

/** Creates a topic with the given settings. Resolves when all its partitions have leaders. */
export async function createTopic(admin: Admin, config: ITopicConfig): Promise<void> {
  // kafkajs's own wait fails on a topic that the broker of the metadata does not know yet.
  await admin.createTopics({ topics: [config], waitForLeaders: false })
  const hasLeaders = () =>
    admin.fetchTopicOffsets(config.topic).then(
      () => true,
      () => false,
    )
  await waitUntil(hasLeaders, `${config.topic} has leaders`)
}
