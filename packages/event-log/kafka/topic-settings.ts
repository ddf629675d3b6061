import kafkajs, { type Admin, type ConfigEntries, type IResourceConfigEntry } from 'kafkajs'

/** The resource type of a topic in requests for its settings. Node finds this enum only in kafkajs's default export. */
export const topicResource = kafkajs.ConfigResourceTypes.TOPIC
/** The source of settings that belong to the topic itself, not to its brokers. */
const topicConfigSource = kafkajs.ConfigSource.TOPIC_CONFIG
/** Number of replicas with which a topic's events survive the loss of a machine. */
export const replicasWanted = 3
/** The number of these replicas that must have an event before it is acknowledged (`min.insync.replicas`). */
export const inSyncWanted = 2

/** The names of a topic's siblings, of old events and of dead letters. open-event-log.ts makes their URLs. */
export function siblingTopics(topic: string): { backfill: string; dead: string } {
  return { backfill: `${topic}.backfill`, dead: `${topic}.dead` }
}

/**
 * The properties that two topics must share: to be equally durable, and `partitions`, so that copies of an event are in
 * partitions with the same number.
 */
export interface TopicDescription {
  name: string
  partitions: number
  /** Replicas of the partition that has the fewest. */
  replicas: number
  /** The settings of the topic itself, by name. */
  configEntries: IResourceConfigEntry[]
}

/**
 * A topic's partitions, replicas and own settings, sorted by name. Rejects as kafkajs does, also for an unknown topic.
 */
export async function describeTopic(admin: Admin, name: string): Promise<TopicDescription> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
  const partitions = topics.flatMap((topic) => topic.partitions)
  const entries = await topicSettings(admin, name)
  return {
    name,
    partitions: partitions.length,
    replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
    configEntries: entries
      .filter(({ configSource }) => configSource === topicConfigSource)
      .map(({ configName, configValue }) => ({ name: configName, value: configValue }))
      .sort((a, b) => a.name.localeCompare(b.name)),
  }
}

/** All settings that apply to a topic, including those from its brokers. Rejects with kafkajs's errors. */
export async function topicSettings(admin: Admin, name: string): Promise<ConfigEntries[]> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: topicResource, name }],
  })
  return resources.flatMap(({ configEntries }) => configEntries)
}
