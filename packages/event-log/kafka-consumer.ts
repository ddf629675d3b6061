import { createClaimSet } from './claim-set.ts'
import { pause } from '@sluice/runtime/supervisor'
import { describeKafkaError, kafkaErrorType, type KafkaAdmin, type KafkaClient } from './kafka-client.ts'
import { openKafkaSession, type KafkaGroupTimes, type KafkaSession } from './kafka-session.ts'
import type { ConsumerOptions, LogConsumer } from './log.ts'
import type { EventLogLogger } from './logger.ts'

const rejoinMsMin = 250
const rejoinMsMax = 5000
/** What no new attempt would change. */
const fatalTypes = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'INVALID_SESSION_TIMEOUT',
  'INVALID_GROUP_ID',
  'KafkaJSSASLAuthenticationError',
]

export interface KafkaConsumerContext {
  topic: string
  createClient: () => KafkaClient
  admin: KafkaAdmin
  times: KafkaGroupTimes
  logger: EventLogLogger
  /** Told when `run` begins and when it is over. */
  onRunning: (consumer: LogConsumer, running: boolean) => void
}

/**
 * A member of a Kafka consumer group. A rebalance loses all its claims, kept partitions included: each begins again at
 * its committed position. Kafka knows the group as `<topic>.<group>`. While Kafka is away it goes on trying; `run` rejects only when a handler failed or when
 * Kafka refuses this client for good.
 */
export function createKafkaConsumer(context: KafkaConsumerContext, options: ConsumerOptions): LogConsumer {
  const { logger } = context
  const { group } = options
  /** Aborted by `stop` and by failures: no new claims, the present ones end. */
  const draining = new AbortController()
  const drained = Promise.withResolvers<undefined>()
  draining.signal.addEventListener('abort', () => {
    drained.resolve(undefined)
  })
  let failure: { error: unknown } | undefined
  let session: KafkaSession | undefined
  let ran: Promise<void> | undefined

  const fail = (error: unknown) => {
    failure ??= { error }
    draining.abort()
  }
  const claims = createClaimSet(options.onClaim, fail, logger)

  /** One membership; resolves with whether it had joined. */
  async function runSession(): Promise<boolean> {
    const { topic, admin, times } = context
    const current = openKafkaSession({
      topic,
      client: context.createClient(),
      admin,
      consumerOptions: options,
      times,
      claims,
      draining: draining.signal,
      logger,
    })
    session = current
    const reason = await Promise.race([current.ended, drained.promise])
    if (draining.signal.aborted) await claims.drain()
    else {
      const type = kafkaErrorType(reason) ?? ''
      logger.warn({ group, reason: describeKafkaError(reason) }, 'the membership in the consumer group ended')
      if (fatalTypes.includes(type)) fail(reason)
    }
    claims.loseAll('this member left the group')
    session = undefined
    await current.close()
    return current.joined()
  }

  async function run(): Promise<void> {
    context.onRunning(self, true)
    try {
      let waitMs = rejoinMsMin
      while (!draining.signal.aborted) {
        const joined = await runSession()
        waitMs = joined ? rejoinMsMin : Math.min(2 * waitMs, rejoinMsMax)
        await pause(waitMs, draining.signal)
      }
      await claims.drain()
    } finally {
      context.onRunning(self, false)
    }
    if (failure !== undefined) throw failure.error
  }

  const self: LogConsumer = {
    run() {
      if (ran !== undefined) return Promise.reject(new Error('A consumer runs once; make a new one'))
      ran = run()
      return ran
    },
    async stop() {
      draining.abort()
      await ran?.catch(() => undefined)
    },
    lag: () => session?.lag() ?? [],
  }
  return self
}
