import { setTimeout as sleep } from 'node:timers/promises'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface KafkaAwayOptions {
  seed: number
  /**
   * The number of concurrent clients, and the events of a batch. Each client repeats a refused batch every second, so
   * many clients with large batches would overload a slow machine.
   */
  clients: number
  batchEvents: number
  /** Duration of each of the three outages. */
  outageSeconds: number
  /** A 503 must come within this time. */
  refusalMsMax: number
  /** Seconds that the sending takes beside the outages; 20 by default. */
  secondsOfLoad?: number
  say: Say
}

/** Events per second of each client while none is refused. */
const eventsPerSecond = 31

/**
 * R2: Kafka is shut down, then killed, then frozen, while many clients continue to send. Every event that was answered
 * 202 must be stored; every other request must soon be answered 503 with Retry-After.
 */
export async function kafkaAway(
  rig: Rig,
  { seed, clients, batchEvents, outageSeconds, refusalMsMax, secondsOfLoad = 20, say }: KafkaAwayOptions,
): Promise<Outcome> {
  const { kafka, proxies } = rig
  const awayAfter = async (leave: () => Promise<void>): Promise<void> => {
    await leave()
    // Without this the proxy would accept connections although the broker is stopped.
    await proxies.kafka.cut()
    await sleep(outageSeconds * 1000)
    await proxies.kafka.mend()
    await kafka.restart()
  }
  const freeze = async (): Promise<void> => {
    kafka.pause()
    await sleep(outageSeconds * 1000)
    kafka.resume()
  }
  const { figures, problems, details, ledger } = await underLoad(rig, {
    // A careful client waits for the time in Retry-After and does not disconnect from a slow gateway.
    load: {
      seed,
      events: clients * eventsPerSecond * secondsOfLoad,
      eventsPerSecond: clients * eventsPerSecond,
      batchEvents,
      concurrency: clients,
      retryPauseMs: 1_000,
      requestTimeoutMs: 15_000,
      // After an outage all delayed events arrive at once, so the next outage may begin within a second.
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
