import type { ClickHouse } from '@sluice/clickhouse/client'
import { eventInserter } from '@sluice/clickhouse/insert-events'
import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import { eventConsumer } from './consume-events.ts'

export interface WriterEngines {
  log: EventLog
  clickHouse: ClickHouse
}

/** The writer on its engines. Its port serves health and metrics only. */
export function buildWriter({ log, clickHouse }: WriterEngines, { logger, metrics }: Context): Service {
  const inserter = eventInserter(clickHouse.address)
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
      eventConsumer({ log, inserter, logger, metrics }),
    ],
    checks: [
      { name: 'log', required: true, check: () => log.check() },
      { name: 'clickhouse', required: true, check: () => clickHouse.check() },
    ],
  }
}
