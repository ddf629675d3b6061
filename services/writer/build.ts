import type { EventLog } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/insert-events'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { eventConsumer } from './consume-events.ts'
import { watermarkReporter } from './watermark-reporter.ts'

export interface WriterEngines {
  log: EventLog
  /** The log that `deadLetterUrl` names. */
  deadLetters: EventLog
  /** The service closes it after the consumer has stopped; closing it once more has no effect. */
  inserter: EventInserter
  postgres: Postgres
}

/** The writer on its engines. Its port serves health and metrics only. */
export function buildWriter(
  { log, deadLetters, inserter, postgres }: WriterEngines,
  { logger, metrics, clock }: Context,
): Service {
  const consumer = eventConsumer({ log, deadLetters, inserter, logger, metrics })
  return {
    routes: [],
    pages: [],
    components: [
      { name: 'event inserter', stop: () => inserter.close() },
      consumer,
      watermarkReporter({ log, lag: consumer.lag, store: watermarkStore(postgres), logger, metrics, clock }),
    ],
    checks: [
      { name: 'log', required: true, check: () => log.check() },
      { name: 'clickhouse', required: true, check: () => inserter.check() },
      // Without the log of dead letters, rows that can be stored are still stored.
      { name: 'dead letters', required: false, check: () => deadLetters.check() },
      // Without Postgres, only `complete_until` does not move.
      { name: 'postgres', required: false, check: () => postgres.check() },
    ],
    warnings: consumer.warnings,
  }
}
