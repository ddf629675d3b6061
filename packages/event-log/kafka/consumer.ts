import type { LineLogger } from '@sluice/runtime/logger'
import { sleep } from '@sluice/runtime/sleep'
import { createClaimSet } from '../consumer/claim-set.ts'
import type { ConsumerOptions, LogConsumer } from '../log.ts'
import { describeKafkaError, type KafkaAdmin, type KafkaClient, kafkaErrorType } from './client.ts'
import type { KafkaGroupTimes } from './group-times.ts'
import { type KafkaSession, openKafkaSession } from './session.ts'

const rejoinMsMin = 250
const rejoinMsMax = 5000
/** Errors that a retry can't resolve. */
const fatalErrorTypes = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'INVALID_SESSION_TIMEOUT',
  'INVALID_GROUP_ID',
  'KafkaJSSASLAuthenticationError',
]

/** The parts of a log that its consumers use. */
export interface KafkaConsumerContext {
  topic: string
  /** Number of partitions of the topic; rejects while Kafka is unavailable. */
  partitions: () => Promise<number>
  createClient: () => KafkaClient
  admin: KafkaAdmin
  times: KafkaGroupTimes
  logger: LineLogger
  /** Called when `run` begins and when it ends. */
  onRunning: (consumer: LogConsumer, running: boolean) => void
}

/**
 * A member of a Kafka consumer group. Kafka knows the group as `<topic>.<group>`. A rebalance ends all claims of the
 * member, also on partitions that it keeps; each claim begins again at the committed offset. While Kafka is
 * unavailable, the member reconnects repeatedly. `run` rejects only when a handler failed or Kafka rejects this client
 * permanently.
 */
export function createKafkaConsumer(context: KafkaConsumerContext, options: ConsumerOptions): LogConsumer {
  const { logger } = context
  const { group } = options
  /** Aborted by `stop` and by failures. Then no new claim begins, and the current ones end. */
  const draining = new AbortController()
  const drained = Promise.withResolvers<undefined>()
  draining.signal.addEventListener('abort', () => drained.resolve(undefined))
  let failure: { error: unknown } | undefined
  let session: KafkaSession | undefined
  let hasJoined = false
  let ran: Promise<void> | undefined

  const fail = (error: unknown) => {
    failure ??= { error }
    draining.abort()
  }
  const claims = createClaimSet(options.onClaim, fail, logger)

  /** Runs one membership. Resolves to whether it had joined the group. */
  async function runSession(): Promise<boolean> {
    const { topic, admin, times } = context
    // A session that can't get the number has to wait for Kafka in any case.
    const partitions = await context.partitions().catch(() => 1)
    const current = openKafkaSession({
      topic,
      partitions,
      client: context.createClient(),
      admin,
      consumerOptions: options,
      times,
      claims,
      draining: draining.signal,
      onJoined: () => {
        hasJoined = true
      },
      logger,
    })
    session = current
    const reason = await Promise.race([current.ended, drained.promise])
    if (draining.signal.aborted) await claims.drain({ hasFailed: failure !== undefined })
    else {
      const type = kafkaErrorType(reason) ?? ''
      logger.warn({ group, reason: describeKafkaError(reason) }, 'consumer group membership ended')
      if (fatalErrorTypes.includes(type)) fail(reason)
    }
    claims.loseAll('this member left the group')
    session = undefined
    await current.close()
    return current.hasJoined()
  }

  async function run(): Promise<void> {
    context.onRunning(self, true)
    try {
      let waitMs = rejoinMsMin
      while (!draining.signal.aborted) {
        const joined = await runSession()
        waitMs = joined ? rejoinMsMin : Math.min(2 * waitMs, rejoinMsMax)
        await sleep(waitMs, draining.signal)
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
    hasJoined: () => hasJoined,
    lag: () => session?.lag() ?? [],
  }
  return self
}
