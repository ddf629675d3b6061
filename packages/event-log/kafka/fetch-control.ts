import type { Consumer } from 'kafkajs'
import type { Logger } from '@sluice/runtime/logger'
import { describeKafkaError } from './client.ts'

/** Controls what a kafkajs consumer fetches from its topic. Calls have no effect once kafkajs has stopped by itself. */
export interface FetchControl {
  pause(partitions: readonly number[]): void
  resume(partitions: readonly number[]): void
  seek(partition: number, offset: bigint): void
}

/** The control of a consumer of `topic`; `group` appears in log lines. */
export function createFetchControl(
  consumer: Consumer,
  { topic, group, logger }: { topic: string; group: string; logger: Pick<Logger, 'debug'> },
): FetchControl {
  /** Ignores the error that kafkajs throws after it has stopped. Its CRASH event then ends the session. */
  const ifRunning = (action: () => void) => {
    try {
      action()
    } catch (error) {
      logger.debug({ group, reason: describeKafkaError(error) }, 'kafkajs consumer stopped')
    }
  }

  return {
    pause(partitions) {
      ifRunning(() => {
        consumer.pause([{ topic, partitions: [...partitions] }])
      })
    },
    resume(partitions) {
      ifRunning(() => {
        consumer.resume([{ topic, partitions: [...partitions] }])
      })
    },
    seek(partition, offset) {
      ifRunning(() => {
        consumer.seek({ topic, partition, offset: String(offset) })
      })
    },
  }
}
