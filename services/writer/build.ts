import type { ClickHouse } from '@sluice/clickhouse/client'
import { eventInserter } from '@sluice/clickhouse/insert-events'
import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { eventConsumer } from './consume-events.ts'
import { completeUntilTeller } from './tell-complete-until.ts'

export interface WriterEngines {
  log: EventLog
  /** The log that `deadLetterUrl` names. */
  deadLetters: EventLog
  clickHouse: ClickHouse
  postgres: Postgres
}

/** The writer on its engines. Its port serves health and metrics only. */
export function buildWriter(
  { log, deadLetters, clickHouse, postgres }: WriterEngines,
  { logger, metrics }: Context,
): Service {
  const inserter = eventInserter(clickHouse.address)
  const consumer = eventConsumer({ log, deadLetters, inserter, logger, metrics })
  return {
    routes: [],
    pages: [],
    components: [
      {
        name: 'event inserter',
        stop: () => {
          inserter.close()
          return Promise.resolve()
        },
      },
      consumer,
      completeUntilTeller({ log, lag: consumer.lag, store: watermarkStore(postgres), logger, metrics }),
    ],
    checks: [
      { name: 'log', required: true, check: () => log.check() },
      { name: 'clickhouse', required: true, check: () => clickHouse.check() },
      // Good rows go on without it.
      { name: 'dead letters', required: false, check: () => deadLetters.check() },
      // Without it readers only don't hear how far we are.
      { name: 'postgres', required: false, check: () => postgres.check() },
    ],
    warnings: consumer.warnings,
  }
}
