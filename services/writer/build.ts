import { readBudget } from '@sluice/event-log/consumer/read-budget'
import type { EventLog } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { NotReadyError } from '@sluice/runtime/health'
import { eventConsumer } from './consume-events.ts'
import { backfillPolicy, livePolicy } from './lane-policy.ts'
import { liveTraffic } from './live-traffic.ts'
import { storageMeter } from './measure-storage.ts'
import { watermarkReporter } from './watermark-reporter.ts'

/**
 * Memory of the process for blocks that were read and are not stored yet. It does not depend on the number of
 * partitions.
 */
const readBytesMax = 256 * 1024 * 1024

export interface WriterEngines {
  log: EventLog
  /** The backfill log of `log`. */
  backfill: EventLog
  /** The log that `deadLetterUrl` names. */
  deadLetters: EventLog
  /** The service closes it after the consumer has stopped. Closing it again has no effect. */
  inserter: EventInserter
  postgres: Postgres
}

/** The writer on its engines. Its port serves health and metrics only. */
export function buildWriter(
  { log, backfill, deadLetters, inserter, postgres }: WriterEngines,
  { logger, metrics, clock }: Context,
): Service {
  const budget = readBudget(readBytesMax, { consumers: 2 })
  const logs = { live: log, backfill }
  const deps = { logs, deadLetters, inserter, logger, metrics, clock, budget }
  const consumer = eventConsumer(livePolicy(), deps)
  const backfillConsumer = eventConsumer(backfillPolicy(liveTraffic(log, consumer.lag), clock), deps)
  const reporterDeps = { logs, store: watermarkStore(postgres), logger, metrics, clock }
  return {
    routes: [],
    pages: [],
    components: [
      { name: 'event inserter', stop: () => inserter.close() },
      consumer,
      // Both consumers may wait for an insert. If they stopped one after the other, it would take longer than a service
      // may.
      { ...backfillConsumer, stopsWithPrevious: true },
      watermarkReporter({ ...reporterDeps, lane: 'live', lag: consumer.lag }),
      // The first report of this reporter tells the gateways that a writer reads the backfill log.
      watermarkReporter({ ...reporterDeps, lane: 'backfill', lag: backfillConsumer.lag }),
      storageMeter({ deadLetters, positions: replayPositionStore(postgres), inserter, logger, metrics, clock }),
    ],
    checks: [
      {
        name: 'log',
        required: true,
        check: async () => {
          await log.check()
          // For a rolling deploy, "ready" means that the next old writer may stop: its partitions then have a new
          // owner.
          if (!consumer.hasJoined()) throw new NotReadyError('the consumer group is not joined yet')
        },
      },
      // Without the backfill log, events of the live log are still stored.
      { name: 'backfill log', required: false, check: () => backfill.check() },
      { name: 'clickhouse', required: true, check: () => inserter.check() },
      // Without the log of dead letters, rows that can be stored are still stored.
      { name: 'dead letters', required: false, check: () => deadLetters.check() },
      // Without Postgres, only `complete_until` does not advance.
      { name: 'postgres', required: false, check: () => postgres.check() },
    ],
    warnings: () => [...consumer.warnings(), ...backfillConsumer.warnings()],
  }
}
