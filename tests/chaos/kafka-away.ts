import { setTimeout as lasting } from 'node:timers/promises'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface KafkaAwayOptions {
  seed: number
  /** How long each of the three outages lasts. */
  outageSeconds: number
  /** A 503 must come within this time. */
  refusalMsMax: number
  say: Say
}

const eventsPerSecond = 1_000
const events = 20_000

/**
 * R2: Kafka is stopped in order, then killed, then frozen, while many clients go on. Every event that was answered 202
 * must be stored; all else must be answered 503 with Retry-After, and soon.
 */
export async function kafkaAway(
  rig: Rig,
  { seed, outageSeconds, refusalMsMax, say }: KafkaAwayOptions,
): Promise<Outcome> {
  const { kafka, lines } = rig
  const awayAfter = async (leave: () => Promise<void>): Promise<void> => {
    await leave()
    // With the broker gone nobody listens on its port; its line would still.
    await lines.kafka.refuse()
    await lasting(outageSeconds * 1000)
    await lines.kafka.accept()
    await kafka.restart()
  }
  const freeze = async (): Promise<void> => {
    kafka.pause()
    await lasting(outageSeconds * 1000)
    kafka.resume()
  }
  const { figures, problems, details, ledger } = await underLoad(rig, {
    // A careful client waits as long as Retry-After says, and does not hang up on a gateway that takes its time.
    load: {
      seed,
      events,
      eventsPerSecond,
      concurrency: 32,
      retryPauseMs: 1_000,
      requestTimeoutMs: 15_000,
      // After an outage what was held up comes at once, so that the next one may follow within a second.
      patienceMs: 3 * outageSeconds * 1_000 + 120_000,
    },
    faults: [
      { name: 'Kafka stopped', at: 0.1, run: () => awayAfter(() => kafka.shutDown()) },
      { name: 'Kafka killed', at: 0.4, run: () => awayAfter(() => kafka.kill()) },
      { name: 'Kafka frozen', at: 0.7, run: freeze },
    ],
    say,
  })
  const { unanswered, slowest_refusal_ms, refusals_without_retry_after, statuses } = ledger.figures
  return {
    figures: { outage_seconds: outageSeconds, ...figures },
    problems: [
      ...problems,
      ...(unanswered > 0 ? [`${unanswered} requests got no answer`] : []),
      ...(statuses['503'] === undefined ? ['nothing was refused: were there outages?'] : []),
      ...(refusals_without_retry_after > 0 ? [`${refusals_without_retry_after} refusals had no Retry-After`] : []),
      ...(slowest_refusal_ms > refusalMsMax ? [`a refusal took ${slowest_refusal_ms} ms, not ${refusalMsMax}`] : []),
    ],
    details,
  }
}
