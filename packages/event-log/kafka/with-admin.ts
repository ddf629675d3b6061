import type { Admin } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { createKafkaAdmin, createKafkaClient, describeKafkaError } from './client.ts'
import { forwardKafkaLogs } from './forward-logs.ts'
import { parseKafkaUrl } from './url.ts'

const commandTimeoutMs = 15_000

/** Runs the requests of a command. Rejects when Kafka can't be reached within 15 s, or refuses. */
export async function withKafkaAdmin<T>(
  url: string,
  logger: Pick<Logger, 'debug' | 'warn'>,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const address = parseKafkaUrl(url)
  const retry = { retries: 5, initialRetryTime: 200, maxRetryTime: 1000 }
  const admin = createKafkaAdmin(() =>
    createKafkaClient({
      address,
      logger,
      forward: forwardKafkaLogs(logger),
      clientId: 'sluice-migrate',
      requestTimeoutMs: 5000,
      retry,
    }),
  )
  try {
    return await admin.use(work, commandTimeoutMs)
  } catch (error) {
    throw new Error(`Kafka at ${address.brokers.join(', ')}: ${describeKafkaError(error)}`, { cause: error })
  } finally {
    await admin.close()
  }
}
