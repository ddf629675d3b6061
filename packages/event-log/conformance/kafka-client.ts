import { Kafka, logLevel } from 'kafkajs'

/** A kafkajs client for the broker of a log's URL, for requests that the log does not make. It logs nothing. */
export const kafkaClientOf = (url: string): Kafka =>
  new Kafka({ brokers: [new URL(url).host], logLevel: logLevel.NOTHING, clientId: 'test' })

/** The topic of a log's URL. */
export const topicOf = (url: string): string => new URL(url).pathname.slice(1)
